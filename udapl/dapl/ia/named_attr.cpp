// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "named_attr.hpp"

#include "dapl/core/settings.hpp"
#include "device.hpp"

#include <arpa/inet.h>
#include <cstdio>
#include <endian.h>

namespace coherdma::dapl {

namespace {

std::string node_guid(const device &dev) {
    const std::uint64_t guid = be64toh(ibv_get_device_guid(dev.context->device));
    char text[24];
    std::snprintf(text, sizeof text, "%04x:%04x:%04x:%04x", static_cast<unsigned>(guid >> 48),
                  static_cast<unsigned>(guid >> 32 & 0xffff),
                  static_cast<unsigned>(guid >> 16 & 0xffff), static_cast<unsigned>(guid & 0xffff));
    return text;
}

std::string port_gid(const device &dev) {
    ibv_gid gid;
    char text[INET6_ADDRSTRLEN] = "";
    if (ibv_query_gid(dev.ctx(), dev.port, 0, &gid) == 0)
        inet_ntop(AF_INET6, gid.raw, text, sizeof text);
    return text;
}

unsigned mtu_bytes(ibv_mtu mtu) { // IBV_MTU_256 is 1
    return 128U << mtu;
}

const char *port_state_name(const device &dev) {
    switch (dev.port_attr.state) {
    case IBV_PORT_DOWN:
        return "PORT_DOWN";
    case IBV_PORT_INIT:
        return "PORT_INIT";
    case IBV_PORT_ARMED:
        return "PORT_ARMED";
    case IBV_PORT_ACTIVE:
        return "PORT_ACTIVE";
    default:
        return "UNKNOWN";
    }
}

const char *bool_text(bool value) {
    return value ? "TRUE" : "FALSE";
}

} // namespace

/// OFED's names. Those from DAT_EXTENSION_INTERFACE on describe extensions.
named_attrs::named_attrs(const device &dev) {
    add("DAT_IB_PROVIDER_NAME", "coherdma");
    add("DAT_IB_DEVICE_NAME", ibv_get_device_name(dev.context->device));
    add("DAT_IB_CONNECTIVITY_MODE", "DIRECT");
    add("DAT_IB_RDMA_READ", "TRUE");
    add("DAT_IB_NODE_GUID", node_guid(dev));
    add("DAT_IB_GID", port_gid(dev));
    add("DAT_IB_TRANSPORT_MTU", std::to_string(mtu_bytes(dev.port_attr.active_mtu)));
    add("DAT_IB_PORT_STATUS", port_state_name(dev));
    add("DAT_IB_PORT_NUMBER", std::to_string(dev.port));
    num_base = attrs.size();
    add("DAT_EXTENSION_INTERFACE", bool_text(!dev.iwarp));
    add("DAT_IB_FETCH_AND_ADD", bool_text(dev.has_atomics()));
    add("DAT_IB_CMP_AND_SWAP", bool_text(dev.has_atomics()));
    add("DAT_IB_IMMED_DATA", bool_text(!dev.iwarp));
    add("DAT_IB_UD", bool_text(dev.has_ud()));
}

// The list points to the strings, so they must not move.
void named_attrs::add(const char *name, std::string value) {
    values.push_back(std::make_unique<std::string>(std::move(value)));
    attrs.push_back({name, values.back()->c_str()});
}

/// The vendor ID is an OUI or, from most vendors, a PCI vendor ID.
const char *vendor_name(const device &dev) noexcept {
    switch (dev.attr.vendor_id & 0xffffff) {
    case 0x02c9:
    case 0x15b3:
        return "Mellanox";
    case 0x8086:
        return "Intel";
    case 0x1425:
        return "Chelsio";
    case 0x14e4:
        return "Broadcom";
    default: // rxe has 0xffffff
        return "";
    }
}

DAT_COUNT max_read_segments(const device &dev) noexcept {
    return dev.iwarp ? 1 : dev.attr.max_sge;
}

// On iWARP the peer's Read Response names the buffer by its STag, like a Write. siw does not check
// the privilege.
bool read_needs_remote_write(const device &dev) noexcept {
    return dev.iwarp && !dev.is_siw();
}

} // namespace coherdma::dapl

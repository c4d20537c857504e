// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "named.hpp"

#include "device.hpp"
#include "extensions/ib.hpp"
#include "extensions/ud.hpp"
#include "settings.hpp"

#include <arpa/inet.h>
#include <cstdio>
#include <endian.h>

namespace coherdma::dapl {

namespace {

constexpr unsigned software = 0xffffff; ///< of rxe: no maker's number

std::string guid_of(const device &on) {
    const std::uint64_t guid = be64toh(ibv_get_device_guid(on.verbs->device));
    char text[24];
    std::snprintf(text, sizeof text, "%04x:%04x:%04x:%04x", static_cast<unsigned>(guid >> 48),
                  static_cast<unsigned>(guid >> 32 & 0xffff),
                  static_cast<unsigned>(guid >> 16 & 0xffff), static_cast<unsigned>(guid & 0xffff));
    return text;
}

std::string gid_of(const device &on) {
    ibv_gid gid;
    char text[INET6_ADDRSTRLEN] = "";
    if (ibv_query_gid(on.verbs, on.port, 0, &gid) == 0)
        inet_ntop(AF_INET6, gid.raw, text, sizeof text);
    return text;
}

const char *state_of(const device &on) {
    switch (on.state.state) {
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

const char *truth(bool value) {
    return value ? "TRUE" : "FALSE";
}

} // namespace

named_attributes::named_attributes(const device &on) {
    add("DAT_IB_PROVIDER_NAME", "coherdma");
    add("DAT_IB_DEVICE_NAME", ibv_get_device_name(on.verbs->device));
    add("DAT_IB_CONNECTIVITY_MODE", "DIRECT");
    add("DAT_IB_RDMA_READ", "TRUE");
    add("DAT_IB_NODE_GUID", guid_of(on));
    add("DAT_IB_GID", gid_of(on));
    add("DAT_IB_TRANSPORT_MTU", std::to_string(128 << on.state.active_mtu));
    add("DAT_IB_PORT_STATUS", state_of(on));
    add("DAT_IB_PORT_NUMBER", std::to_string(on.port));
    plain_ones = pairs.size();
    add("DAT_EXTENSION_INTERFACE", truth(!on.iwarp));
    add("DAT_IB_FETCH_AND_ADD", truth(extensions::atomics(on)));
    add("DAT_IB_CMP_AND_SWAP", truth(extensions::atomics(on)));
    add("DAT_IB_IMMED_DATA", truth(!on.iwarp));
    add("DAT_IB_UD", truth(extensions::datagrams(on)));
    if (settings::counters())
        add("DAT_COUNTERS", "TRUE");
}

// The list keeps pointers, so each word has a place of its own.
void named_attributes::add(const char *name, std::string value) {
    values.push_back(std::make_unique<std::string>(std::move(value)));
    pairs.push_back({name, values.back()->c_str()});
}

const char *vendor_of(const device &on) noexcept {
    switch (on.limits.vendor_id & 0xffffff) {
    case 0x02c9:
    case 0x15b3:
        return "Mellanox";
    case 0x8086:
        return "Intel";
    case 0x1425:
        return "Chelsio";
    case 0x14e4:
        return "Broadcom";
    case software:
    default:
        return "";
    }
}

DAT_COUNT max_read_segments(const device &on) noexcept {
    return on.iwarp ? 1 : on.limits.max_sge;
}

// iWARP puts the answer where the request said, by the key that a peer's Write would need. siw,
// which has no hardware to be told, does not ask for the privilege.
bool reads_need_remote_write(const device &on) noexcept {
    return on.iwarp && !on.is_siw();
}

} // namespace coherdma::dapl

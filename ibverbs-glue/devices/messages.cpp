// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "messages.hpp"

#include <array>
#include <cstring>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <rdma/rdma_netlink.h>

namespace coherdma::devices {
namespace {

using attributes = std::array<nlattr *, RDMA_NLDEV_ATTR_MAX>;

// As the kernel's headers number them (enum rdma_driver_id).
constexpr std::array<const char *, 22> DRIVERS = {
    "",    "mlx5",  "mlx4",       "cxgb3", "cxgb4", "mthca", "bnxt_re", "ocrdma",
    "nes", "irdma", "vmw_pvrdma", "qedr",  "hns",   "usnic", "rxe",     "hfi1",
    "qib", "efa",   "siw",        "erdma", "mana",  "ionic"};

std::string transport_of(const std::string &protocol) {
    constexpr std::array<std::array<const char *, 2>, 5> NAMES = {{{"ib", "InfiniBand"},
                                                                   {"iw", "iWARP"},
                                                                   {"roce", "RoCE"},
                                                                   {"opa", "Omni-Path"},
                                                                   {"usnic", "usNIC"}}};
    for (const auto &each : NAMES) {
        if (protocol == each[0])
            return each[1];
    }
    return protocol;
}

/// A message that answers this command.
bool parse(nlmsghdr *message, int command, attributes &into) {
    return message->nlmsg_type == RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command) &&
           nlmsg_parse(message, 0, into.data(), RDMA_NLDEV_ATTR_MAX - 1, nullptr) >= 0;
}

std::optional<std::uint64_t> number(const nlattr *attribute) {
    const int length = attribute ? nla_len(attribute) : 0;
    if (length == 1)
        return nla_get_u8(attribute);
    if (length == 4)
        return nla_get_u32(attribute);
    if (length == 8) // what the headers say of the driver's number, though the kernel sends 4
        return nla_get_u64(attribute);
    return {};
}

std::string text(const nlattr *attribute) {
    if (!attribute || nla_len(attribute) <= 0)
        return {};
    const auto *bytes = static_cast<const char *>(nla_data(attribute));
    return {bytes, strnlen(bytes, static_cast<std::size_t>(nla_len(attribute)))};
}

std::uint32_t small_number(const nlattr *attribute) {
    return static_cast<std::uint32_t>(number(attribute).value_or(0));
}

} // namespace

std::optional<numbered_device> device_in(nlmsghdr *message) {
    attributes found = {};
    if (!parse(message, RDMA_NLDEV_CMD_GET, found))
        return {};
    const auto index = number(found[RDMA_NLDEV_ATTR_DEV_INDEX]);
    numbered_device one;
    one.about.name = text(found[RDMA_NLDEV_ATTR_DEV_NAME]);
    if (!index || one.about.name.empty())
        return {};
    one.index = static_cast<std::uint32_t>(*index);
    one.about.transport = transport_of(text(found[RDMA_NLDEV_ATTR_DEV_PROTOCOL]));
    return one;
}

std::optional<port> port_in(nlmsghdr *message) {
    attributes found = {};
    if (!parse(message, RDMA_NLDEV_CMD_PORT_GET, found))
        return {};
    port one;
    one.device = text(found[RDMA_NLDEV_ATTR_DEV_NAME]);
    one.number = small_number(found[RDMA_NLDEV_ATTR_PORT_INDEX]);
    if (one.device.empty() || one.number == 0)
        return {};
    one.interface = text(found[RDMA_NLDEV_ATTR_NDEV_NAME]);
    one.state = small_number(found[RDMA_NLDEV_ATTR_PORT_STATE]);
    return one;
}

const char *driver_in(nlmsghdr *message) {
    attributes found = {};
    if (!parse(message, RDMA_NLDEV_CMD_GET_CHARDEV, found))
        return "";
    const auto driver = number(found[RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID]);
    return driver && *driver < DRIVERS.size() ? DRIVERS[*driver] : "";
}

} // namespace coherdma::devices

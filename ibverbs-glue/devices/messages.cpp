// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "messages.hpp"

#include <array>
#include <cstring>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <rdma/rdma_netlink.h>

namespace coherdma::devices {
namespace {

using nldev_attrs = std::array<nlattr *, RDMA_NLDEV_ATTR_MAX>;

// By enum rdma_driver_id; the names are those of the kernel drivers.
constexpr std::array<const char *, 22> DRIVER_NAMES = {
    "",    "mlx5",  "mlx4",       "cxgb3", "cxgb4", "mthca", "bnxt_re", "ocrdma",
    "nes", "irdma", "vmw_pvrdma", "qedr",  "hns",   "usnic", "rxe",     "hfi1",
    "qib", "efa",   "siw",        "erdma", "mana",  "ionic"};

/// The name for users. protocol: as the kernel reports it; returned as it is if unknown.
std::string transport_name(const std::string &protocol) {
    constexpr std::array<std::array<const char *, 2>, 5> NAMES = {{{"ib", "InfiniBand"},
                                                                   {"iw", "iWARP"},
                                                                   {"roce", "RoCE"},
                                                                   {"opa", "Omni-Path"},
                                                                   {"usnic", "usNIC"}}};
    for (const auto &name : NAMES) {
        if (protocol == name[0])
            return name[1];
    }
    return protocol;
}

/// Parses the attributes, by RDMA_NLDEV_ATTR_*, if the message is a response to this command.
/// Returns whether it is.
bool parse_attrs(nlmsghdr *message, int command, nldev_attrs &attrs) {
    return message->nlmsg_type == RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command) &&
           nlmsg_parse(message, 0, attrs.data(), RDMA_NLDEV_ATTR_MAX - 1, nullptr) >= 0;
}

/// The number in an attribute of any size; nullopt if the message does not have it.
std::optional<std::uint64_t> get_number(const nlattr *attr) {
    const int length = attr ? nla_len(attr) : 0;
    if (length == 1)
        return nla_get_u8(attr);
    if (length == 4)
        return nla_get_u32(attr);
    // The headers say that RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID has 8 bytes; the kernel sends 4.
    if (length == 8)
        return nla_get_u64(attr);
    return {};
}

/// "" if the message does not have the attribute.
std::string get_string(const nlattr *attr) {
    if (!attr || nla_len(attr) <= 0)
        return {};
    const auto *bytes = static_cast<const char *>(nla_data(attr));
    return {bytes, strnlen(bytes, static_cast<std::size_t>(nla_len(attr)))};
}

/// 0 if the message does not have the attribute.
std::uint32_t get_u32(const nlattr *attr) {
    return static_cast<std::uint32_t>(get_number(attr).value_or(0));
}

} // namespace

/// nullopt: another kind of message, or without index or name.
std::optional<indexed_device> parse_device(nlmsghdr *message) {
    nldev_attrs attrs = {};
    if (!parse_attrs(message, RDMA_NLDEV_CMD_GET, attrs))
        return {};
    const auto index = get_number(attrs[RDMA_NLDEV_ATTR_DEV_INDEX]);
    indexed_device result;
    result.device.name = get_string(attrs[RDMA_NLDEV_ATTR_DEV_NAME]);
    if (!index || result.device.name.empty())
        return {};
    result.index = static_cast<std::uint32_t>(*index);
    result.device.transport = transport_name(get_string(attrs[RDMA_NLDEV_ATTR_DEV_PROTOCOL]));
    return result;
}

/// nullopt: another kind of message, or without device or number.
std::optional<port> parse_port(nlmsghdr *message) {
    nldev_attrs attrs = {};
    if (!parse_attrs(message, RDMA_NLDEV_CMD_PORT_GET, attrs))
        return {};
    port result;
    result.device = get_string(attrs[RDMA_NLDEV_ATTR_DEV_NAME]);
    result.port_num = get_u32(attrs[RDMA_NLDEV_ATTR_PORT_INDEX]);
    if (result.device.empty() || result.port_num == 0)
        return {};
    result.netdev = get_string(attrs[RDMA_NLDEV_ATTR_NDEV_NAME]);
    result.state = get_u32(attrs[RDMA_NLDEV_ATTR_PORT_STATE]);
    return result;
}

/// The name of the kernel driver; "" if it is missing or unknown.
const char *parse_driver(nlmsghdr *message) {
    nldev_attrs attrs = {};
    if (!parse_attrs(message, RDMA_NLDEV_CMD_GET_CHARDEV, attrs))
        return "";
    const auto driver = get_number(attrs[RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID]);
    return driver && *driver < DRIVER_NAMES.size() ? DRIVER_NAMES[*driver] : "";
}

} // namespace coherdma::devices

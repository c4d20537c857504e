// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The kernel's RDMA netlink: it lists the devices of this network namespace, and tells the number
// of each one's driver when asked for its character device.

#include "devices.hpp"

#include <array>
#include <cstring>
#include <memory>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <rdma/rdma_netlink.h>

namespace coherdma::devices {
namespace {

struct numbered {
    std::uint32_t index = 0;
    device about;
};

using attributes = std::array<nlattr *, RDMA_NLDEV_ATTR_MAX>;

struct free_socket {
    void operator()(nl_sock *which) const noexcept { nl_socket_free(which); }
};
struct free_message {
    void operator()(nl_msg *which) const noexcept { nlmsg_free(which); }
};
struct free_callbacks {
    void operator()(nl_cb *which) const noexcept { nl_cb_put(which); }
};
using socket_owner = std::unique_ptr<nl_sock, free_socket>;
using message_owner = std::unique_ptr<nl_msg, free_message>;
using callbacks_owner = std::unique_ptr<nl_cb, free_callbacks>;

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

bool parse(nl_msg *message, attributes &into) {
    return nlmsg_parse(nlmsg_hdr(message), 0, into.data(), RDMA_NLDEV_ATTR_MAX - 1, nullptr) >= 0;
}

std::optional<std::uint64_t> number(const nlattr *attribute) {
    const int length = attribute ? nla_len(attribute) : 0;
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

// Nothing may be thrown through libnl, which is C; without memory the list ends early.
int add_device(nl_msg *message, void *given) noexcept {
    try {
        attributes found = {};
        numbered next;
        const auto index =
            parse(message, found) ? number(found[RDMA_NLDEV_ATTR_DEV_INDEX]) : std::nullopt;
        next.about.name = index ? text(found[RDMA_NLDEV_ATTR_DEV_NAME]) : "";
        if (next.about.name.empty())
            return NL_SKIP;
        next.index = static_cast<std::uint32_t>(*index);
        next.about.transport = transport_of(text(found[RDMA_NLDEV_ATTR_DEV_PROTOCOL]));
        static_cast<std::vector<numbered> *>(given)->push_back(next);
        return NL_OK;
    } catch (...) {
        return NL_STOP;
    }
}

int set_driver(nl_msg *message, void *given) noexcept {
    attributes found = {};
    if (!parse(message, found))
        return NL_SKIP;
    const auto driver = number(found[RDMA_NLDEV_ATTR_UVERBS_DRIVER_ID]);
    if (driver && *driver < DRIVERS.size())
        *static_cast<const char **>(given) = DRIVERS[*driver];
    return NL_OK;
}

bool ask(nl_sock *socket, message_owner question, nl_recvmsg_msg_cb_t answer, void *argument) {
    const callbacks_owner callbacks(nl_cb_alloc(NL_CB_DEFAULT));
    return question && callbacks && nl_send_auto(socket, question.get()) >= 0 &&
           nl_cb_set(callbacks.get(), NL_CB_VALID, NL_CB_CUSTOM, answer, argument) == 0 &&
           nl_recvmsgs(socket, callbacks.get()) >= 0;
}

message_owner question(int command, int flags) {
    return message_owner(nlmsg_alloc_simple(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command), flags));
}

} // namespace

std::optional<std::vector<device>> by_netlink() {
    const socket_owner socket(nl_socket_alloc());
    if (!socket || nl_connect(socket.get(), NETLINK_RDMA) != 0)
        return {};
    nl_socket_disable_auto_ack(socket.get());
    std::vector<numbered> found;
    if (!ask(socket.get(), question(RDMA_NLDEV_CMD_GET, NLM_F_REQUEST | NLM_F_DUMP), add_device,
             &found))
        return {};
    std::vector<device> all;
    for (numbered &each : found) {
        message_owner one = question(RDMA_NLDEV_CMD_GET_CHARDEV, NLM_F_REQUEST);
        const char *driver = "";
        if (one && nla_put_u32(one.get(), RDMA_NLDEV_ATTR_DEV_INDEX, each.index) == 0 &&
            nla_put_string(one.get(), RDMA_NLDEV_ATTR_CHARDEV_TYPE, "uverbs") == 0)
            ask(socket.get(), std::move(one), set_driver, &driver); // older kernels do not know
        each.about.driver = driver;
        all.push_back(each.about);
    }
    return all;
}

} // namespace coherdma::devices

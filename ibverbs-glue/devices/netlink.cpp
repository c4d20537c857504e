// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The kernel's RDMA netlink: it lists the devices of this network namespace, and tells the number
// of each one's driver when asked for its character device.

#include "devices.hpp"
#include "messages.hpp"

#include <memory>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <rdma/rdma_netlink.h>

namespace coherdma::devices {
namespace {

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

// Nothing may be thrown through libnl, which is C; without memory the list ends early.
template <typename Item, std::optional<Item> (*Read)(nlmsghdr *)>
int add(nl_msg *message, void *given) noexcept {
    try {
        const std::optional<Item> next = Read(nlmsg_hdr(message));
        if (!next)
            return NL_SKIP;
        static_cast<std::vector<Item> *>(given)->push_back(*next);
        return NL_OK;
    } catch (...) {
        return NL_STOP;
    }
}

int set_driver(nl_msg *message, void *given) noexcept {
    *static_cast<const char **>(given) = driver_in(nlmsg_hdr(message));
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

/// About one device, by its number.
message_owner question_about(std::uint32_t index, int command, int flags) {
    message_owner one = question(command, flags);
    const bool right = one && nla_put_u32(one.get(), RDMA_NLDEV_ATTR_DEV_INDEX, index) == 0;
    return right ? std::move(one) : nullptr;
}

socket_owner connect() {
    socket_owner socket(nl_socket_alloc());
    if (!socket || nl_connect(socket.get(), NETLINK_RDMA) != 0)
        return nullptr;
    nl_socket_disable_auto_ack(socket.get());
    return socket;
}

std::optional<std::vector<numbered_device>> list(nl_sock *socket) {
    std::vector<numbered_device> found;
    if (!ask(socket, question(RDMA_NLDEV_CMD_GET, NLM_F_REQUEST | NLM_F_DUMP),
             add<numbered_device, device_in>, &found))
        return {};
    return found;
}

} // namespace

std::optional<std::vector<device>> by_netlink() {
    const socket_owner socket = connect();
    const auto found = socket ? list(socket.get()) : std::nullopt;
    if (!found)
        return {};
    std::vector<device> all;
    for (const numbered_device &each : *found) {
        message_owner one = question_about(each.index, RDMA_NLDEV_CMD_GET_CHARDEV, NLM_F_REQUEST);
        const char *driver = "";
        if (one && nla_put_string(one.get(), RDMA_NLDEV_ATTR_CHARDEV_TYPE, "uverbs") == 0)
            ask(socket.get(), std::move(one), set_driver, &driver); // older kernels do not know
        all.push_back(each.about);
        all.back().driver = driver;
    }
    return all;
}

std::optional<std::vector<port>> ports_by_netlink() {
    const socket_owner socket = connect();
    const auto found = socket ? list(socket.get()) : std::nullopt;
    if (!found)
        return {};
    std::vector<port> all;
    for (const numbered_device &each : *found) {
        std::vector<port> some;
        // A device that is gone meanwhile has no ports.
        ask(socket.get(),
            question_about(each.index, RDMA_NLDEV_CMD_PORT_GET, NLM_F_REQUEST | NLM_F_DUMP),
            add<port, port_in>, &some);
        for (port &one : some) {
            one.transport = each.about.transport;
            all.push_back(std::move(one));
        }
    }
    return all;
}

} // namespace coherdma::devices

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Queries RDMA netlink for the network namespace mode and the interfaces of devices. Opening the
// socket makes the kernel load ib_core, as any verbs program does.

#include "doctor/host.hpp"

#include <cerrno>
#include <memory>
#include <netlink/attr.h>
#include <netlink/errno.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <rdma/rdma_netlink.h>
#include <sys/time.h>

namespace tools::doctor {
namespace {

using socket_ptr = std::unique_ptr<nl_sock, decltype(&nl_socket_free)>;
using message_ptr = std::unique_ptr<nl_msg, decltype(&nlmsg_free)>;
using attributes = nlattr *[RDMA_NLDEV_ATTR_MAX];

socket_ptr connect_netlink() {
    socket_ptr sock(nl_socket_alloc(), nl_socket_free);
    if (!sock || nl_connect(sock.get(), NETLINK_RDMA) != 0)
        return {nullptr, nl_socket_free};
    const timeval timeout{2, 0}; // 2 s
    setsockopt(nl_socket_get_fd(sock.get()), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    nl_socket_disable_auto_ack(sock.get());
    return sock;
}

/// Called with the attributes of a reply, indexed by RDMA_NLDEV_ATTR_*; nullptr: not in the reply.
using reply_callback = std::function<void(nlattr *const *)>;

/// A libnl callback; callback: a reply_callback *.
int parse_reply(nl_msg *reply, void *callback) {
    attributes attrs = {};
    if (nlmsg_parse(nlmsg_hdr(reply), 0, attrs, RDMA_NLDEV_ATTR_MAX - 1, nullptr) == 0)
        (*static_cast<reply_callback *>(callback))(attrs);
    return NL_OK;
}

/// Sends a command, about port 1 of the device with this index if it is set, and calls on_reply for
/// each reply.
bool send_command(nl_sock *sock, int command, int flags, std::optional<std::uint32_t> device_index,
                  reply_callback on_reply) {
    message_ptr request(nlmsg_alloc_simple(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command), flags),
                        nlmsg_free);
    if (!request)
        return false;
    if (device_index &&
        (nla_put_u32(request.get(), RDMA_NLDEV_ATTR_DEV_INDEX, *device_index) != 0 ||
         nla_put_u32(request.get(), RDMA_NLDEV_ATTR_PORT_INDEX, 1) != 0))
        return false;
    nl_socket_modify_cb(sock, NL_CB_VALID, NL_CB_CUSTOM, parse_reply, &on_reply);
    return nl_send_auto(sock, request.get()) >= 0 && nl_recvmsgs_default(sock) >= 0;
}

} // namespace

/// What only netlink tells: whether network namespaces share devices, and the interface of each
/// device.
netlink_info query_netlink() {
    netlink_info info;
    const socket_ptr sock = connect_netlink();
    if (!sock)
        return info;
    info.is_available = true;
    send_command(sock.get(), RDMA_NLDEV_CMD_SYS_GET, 0, {}, [&](nlattr *const *attrs) {
        if (const nlattr *mode = attrs[RDMA_NLDEV_SYS_ATTR_NETNS_MODE])
            info.mode = nla_get_u8(mode) ? netns_mode::SHARED : netns_mode::EXCLUSIVE;
    });
    std::map<std::string, std::uint32_t> device_indices;
    send_command(sock.get(), RDMA_NLDEV_CMD_GET, NLM_F_DUMP, {}, [&](nlattr *const *attrs) {
        const nlattr *name = attrs[RDMA_NLDEV_ATTR_DEV_NAME];
        const nlattr *index = attrs[RDMA_NLDEV_ATTR_DEV_INDEX];
        if (name && index)
            device_indices[nla_get_string(name)] = nla_get_u32(index);
    });
    for (const auto &[name, index] : device_indices) {
        send_command(sock.get(), RDMA_NLDEV_CMD_PORT_GET, 0, index,
                     [&, &device = name](auto *attrs) {
                         if (const nlattr *netdev = attrs[RDMA_NLDEV_ATTR_NDEV_NAME])
                             info.netdevs[device] = nla_get_string(netdev);
                     });
    }
    return info;
}

} // namespace tools::doctor

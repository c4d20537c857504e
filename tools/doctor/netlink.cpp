// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the kernel says on its RDMA socket: who sees which devices, and on which interface each is.
// Opening the socket makes the kernel load ib_core if it can, as every program of verbs does.

#include "doctor/host.hpp"

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

using link = std::unique_ptr<nl_sock, decltype(&nl_socket_free)>;
using message = std::unique_ptr<nl_msg, decltype(&nlmsg_free)>;
using attributes = nlattr *[RDMA_NLDEV_ATTR_MAX];

link connected() {
    link to(nl_socket_alloc(), nl_socket_free);
    if (!to || nl_connect(to.get(), NETLINK_RDMA) != 0)
        return {nullptr, nl_socket_free};
    const timeval patience{2, 0};
    setsockopt(nl_socket_get_fd(to.get()), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    nl_socket_disable_auto_ack(to.get());
    return to;
}

using visitor = std::function<void(nlattr *const *)>;

int each_answer(nl_msg *answer, void *visit) {
    attributes found = {};
    if (nlmsg_parse(nlmsg_hdr(answer), 0, found, RDMA_NLDEV_ATTR_MAX - 1, nullptr) == 0)
        (*static_cast<visitor *>(visit))(found);
    return NL_OK;
}

/// Sends a command, with a device's index and port unless it is for all, and visits the answers.
bool ask(nl_sock *to, int command, int flags, std::optional<std::uint32_t> device, visitor visit) {
    message request(nlmsg_alloc_simple(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command), flags),
                    nlmsg_free);
    if (!request)
        return false;
    if (device && (nla_put_u32(request.get(), RDMA_NLDEV_ATTR_DEV_INDEX, *device) != 0 ||
                   nla_put_u32(request.get(), RDMA_NLDEV_ATTR_PORT_INDEX, 1) != 0))
        return false;
    nl_socket_modify_cb(to, NL_CB_VALID, NL_CB_CUSTOM, each_answer, &visit);
    return nl_send_auto(to, request.get()) >= 0 && nl_recvmsgs_default(to) >= 0;
}

} // namespace

netlink_answer ask_netlink() {
    netlink_answer all;
    const link to = connected();
    if (!to)
        return all;
    all.there = true;
    ask(to.get(), RDMA_NLDEV_CMD_SYS_GET, 0, {}, [&](nlattr *const *found) {
        if (const nlattr *mode = found[RDMA_NLDEV_SYS_ATTR_NETNS_MODE])
            all.mode = nla_get_u8(mode) ? netns_mode::SHARED : netns_mode::EXCLUSIVE;
    });
    std::map<std::string, std::uint32_t> indices;
    ask(to.get(), RDMA_NLDEV_CMD_GET, NLM_F_DUMP, {}, [&](nlattr *const *found) {
        const nlattr *name = found[RDMA_NLDEV_ATTR_DEV_NAME];
        const nlattr *index = found[RDMA_NLDEV_ATTR_DEV_INDEX];
        if (name && index)
            indices[nla_get_string(name)] = nla_get_u32(index);
    });
    for (const auto &[name, index] : indices) {
        ask(to.get(), RDMA_NLDEV_CMD_PORT_GET, 0, index, [&, &device = name](auto *found) {
            if (const nlattr *netdev = found[RDMA_NLDEV_ATTR_NDEV_NAME])
                all.netdevs[device] = nla_get_string(netdev);
        });
    }
    return all;
}

} // namespace tools::doctor

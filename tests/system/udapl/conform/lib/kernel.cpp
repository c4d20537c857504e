// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What `rdma resource` prints, asked for as it does, by netlink: each case asks twice, and to start
// a program takes longer than most cases.

#include "kernel.hpp"

#include <array>
#include <cstdint>
#include <cstring>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <span>
#include <stdexcept>
#include <sys/socket.h>
#include <unistd.h>

namespace conform {

namespace {

class rdma_netlink {
  public:
    rdma_netlink()
        : socket_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA)) {
        if (socket_ < 0)
            throw std::runtime_error("no netlink of RDMA");
    }
    ~rdma_netlink() { close(socket_); }
    rdma_netlink(const rdma_netlink &) = delete;
    rdma_netlink &operator=(const rdma_netlink &) = delete;

    void request_resources() const {
        nlmsghdr request{};
        request.nlmsg_len = sizeof request;
        request.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_GET);
        request.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
        if (send(socket_, &request, sizeof request, 0) != sizeof request)
            throw std::runtime_error("netlink: send");
    }
    std::span<const std::byte> receive() {
        const ssize_t length = recv(socket_, buffer_.data(), buffer_.size(), 0);
        if (length < 0)
            throw std::runtime_error("netlink: recv");
        return std::span(buffer_).first(static_cast<std::size_t>(length));
    }

  private:
    int socket_;
    alignas(nlmsghdr) std::array<std::byte, 65536> buffer_{};
};

/// Of a list of headers that begin with their length, the first, and moves behind it.
template <class Header>
std::span<const std::byte> take_header(std::span<const std::byte> &list, Header &header) {
    std::memcpy(&header, list.data(), sizeof header);
    std::size_t length = 0;
    if constexpr (requires { header.nlmsg_len; })
        length = header.nlmsg_len;
    else
        length = header.nla_len;
    if (length < sizeof header || length > list.size())
        throw std::runtime_error("netlink: malformed");
    const auto body = list.subspan(sizeof header, length - sizeof header);
    list = list.subspan(std::min(list.size(), (length + 3) & ~std::size_t{3}));
    return body;
}

template <class Each>
void for_each_attribute(std::span<const std::byte> list, Each fn) {
    nlattr header{};
    while (list.size() >= sizeof header) {
        const auto body = take_header(list, header);
        fn(header.nla_type & NLA_TYPE_MASK, body);
    }
}

std::string to_string(std::span<const std::byte> body) {
    return reinterpret_cast<const char *>(body.data()); // it ends with a 0
}

void read_entry(std::span<const std::byte> entry, kernel_counts &counts) {
    std::string kind;
    std::uint64_t count = 0;
    for_each_attribute(entry, [&](int type, std::span<const std::byte> body) {
        if (type == RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME)
            kind = to_string(body);
        else if (type == RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR)
            std::memcpy(&count, body.data(), std::min(body.size(), sizeof count));
    });
    counts[kind] = static_cast<long>(count);
}

void read_device(std::span<const std::byte> message, const std::string &device,
                 kernel_counts &counts) {
    std::string name;
    kernel_counts device_counts;
    for_each_attribute(message, [&](int type, std::span<const std::byte> body) {
        if (type == RDMA_NLDEV_ATTR_DEV_NAME)
            name = to_string(body);
        else if (type == RDMA_NLDEV_ATTR_RES_SUMMARY)
            for_each_attribute(body, [&](int, std::span<const std::byte> entry) {
                read_entry(entry, device_counts);
            });
    });
    if (name == device)
        counts = device_counts;
}

} // namespace

kernel_counts count_kernel_objects(const std::string &device) {
    rdma_netlink netlink;
    netlink.request_resources();
    kernel_counts counts;
    for (;;) {
        auto reply = netlink.receive();
        nlmsghdr header{};
        while (reply.size() >= sizeof header) {
            const auto message = take_header(reply, header);
            if (header.nlmsg_type == NLMSG_DONE)
                return counts;
            if (header.nlmsg_type == NLMSG_ERROR)
                throw std::runtime_error("netlink: the kernel refuses");
            read_device(message, device, counts);
        }
    }
}

long count_posted_requests() {
    return 0;
}

} // namespace conform

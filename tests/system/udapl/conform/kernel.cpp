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

class talk {
  public:
    talk()
        : socket_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA)) {
        if (socket_ < 0)
            throw std::runtime_error("no netlink of RDMA");
    }
    ~talk() { close(socket_); }
    talk(const talk &) = delete;
    talk &operator=(const talk &) = delete;

    void ask() const {
        nlmsghdr request{};
        request.nlmsg_len = sizeof request;
        request.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_GET);
        request.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
        if (send(socket_, &request, sizeof request, 0) != sizeof request)
            throw std::runtime_error("netlink: send");
    }
    std::span<const std::byte> hear() {
        const ssize_t got = recv(socket_, buffer_.data(), buffer_.size(), 0);
        if (got < 0)
            throw std::runtime_error("netlink: recv");
        return std::span(buffer_).first(static_cast<std::size_t>(got));
    }

  private:
    int socket_;
    alignas(nlmsghdr) std::array<std::byte, 65536> buffer_{};
};

/// Of a list of headers that begin with their length, the first, and moves behind it.
template <class Header>
std::span<const std::byte> take(std::span<const std::byte> &list, Header &header) {
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
void attributes(std::span<const std::byte> list, Each each) {
    nlattr header{};
    while (list.size() >= sizeof header) {
        const auto body = take(list, header);
        each(header.nla_type & NLA_TYPE_MASK, body);
    }
}

std::string words(std::span<const std::byte> body) {
    return reinterpret_cast<const char *>(body.data()); // it ends with a 0
}

void read_entry(std::span<const std::byte> entry, kernel_counts &all) {
    std::string kind;
    std::uint64_t count = 0;
    attributes(entry, [&](int type, std::span<const std::byte> body) {
        if (type == RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME)
            kind = words(body);
        else if (type == RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR)
            std::memcpy(&count, body.data(), std::min(body.size(), sizeof count));
    });
    all[kind] = static_cast<long>(count);
}

void read_device(std::span<const std::byte> message, const std::string &device,
                 kernel_counts &all) {
    std::string name;
    kernel_counts counts;
    attributes(message, [&](int type, std::span<const std::byte> body) {
        if (type == RDMA_NLDEV_ATTR_DEV_NAME)
            name = words(body);
        else if (type == RDMA_NLDEV_ATTR_RES_SUMMARY)
            attributes(body,
                       [&](int, std::span<const std::byte> entry) { read_entry(entry, counts); });
    });
    if (name == device)
        all = counts;
}

} // namespace

kernel_counts counted(const std::string &device) {
    talk kernel;
    kernel.ask();
    kernel_counts all;
    for (;;) {
        auto heard = kernel.hear();
        nlmsghdr header{};
        while (heard.size() >= sizeof header) {
            const auto message = take(heard, header);
            if (header.nlmsg_type == NLMSG_DONE)
                return all;
            if (header.nlmsg_type == NLMSG_ERROR)
                throw std::runtime_error("netlink: the kernel refuses");
            read_device(message, device, all);
        }
    }
}

long posted_requests() {
    return 0;
}

} // namespace conform

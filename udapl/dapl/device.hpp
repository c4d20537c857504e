// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The port of an RDMA device that an IA stands for, and its addresses.
#pragma once

#include <array>
#include <cstdint>
#include <infiniband/verbs.h>
#include <memory>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace coherdma::dapl {

union address {
    sockaddr any;
    sockaddr_in v4;
    sockaddr_in6 v6;

    socklen_t length() const noexcept { return any.sa_family == AF_INET6 ? sizeof v6 : sizeof v4; }
    in_port_t &port() noexcept { return any.sa_family == AF_INET6 ? v6.sin6_port : v4.sin_port; }
};

struct device {
    device() noexcept = default;
    ~device();
    device(const device &) = delete;
    device &operator=(const device &) = delete;

    /// The one of this family, or nullptr.
    const address *of_family(int family) const noexcept;

    /// The kernel's soft-iWARP, by its maker's number.
    bool is_siw() const noexcept { return limits.vendor_id == 0x626d74; }

    ibv_context **opened = nullptr; ///< by librdmacm, all of this machine
    ibv_context *verbs = nullptr;
    std::uint8_t port = 1;
    bool iwarp = false;
    bool windows = false;       ///< it has memory windows
    bool atomic_writes = false; ///< of its own
    ibv_device_attr limits = {};
    ibv_port_attr state = {};
    std::array<char, IF_NAMESIZE> interface = {};
    std::array<address, 16> addresses = {}; ///< IPv4 first
    std::size_t count = 0;
};

/// What the words of dat.conf name: a device, a network interface, an address or a host's name, and
/// then maybe a port. nullptr: no such thing here, or it has no RDMA.
std::shared_ptr<device> find_device(const char *words) noexcept;

} // namespace coherdma::dapl

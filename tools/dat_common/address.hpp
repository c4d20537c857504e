// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <string>
#include <sys/socket.h>
#include <vector>

namespace tools::dat {

/// An IPv4 or IPv6 address, or none.
class address {
  public:
    address() = default;
    /// A copy of *addr; none if addr is NULL or of another family.
    explicit address(const sockaddr *addr);

    explicit operator bool() const { return storage_.ss_family != AF_UNSPEC; }
    int family() const { return storage_.ss_family; }
    const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&storage_); }
    socklen_t length() const;
    /// The numeric address, or "none".
    std::string to_string() const;
    /// Compares the addresses and ignores the ports.
    bool is_same_host(const address &other) const;
    bool is_loopback() const;

  private:
    sockaddr_storage storage_ = {};
};

/// The addresses of a host name or numeric address. Throws std::runtime_error.
std::vector<address> resolve(const std::string &host);

/// The source address that the kernel's routes select for a destination; none without a route.
address source_address_for(const address &destination);

/// The network interface with this address; empty if there is none.
std::string find_netdev(const address &addr);

} // namespace tools::dat

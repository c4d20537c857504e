// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <string>
#include <sys/socket.h>
#include <vector>

namespace tools::dat {

/// An address of IPv4 or IPv6, or none.
class address {
  public:
    address() = default;
    /// A copy of what another's pointer shows; none if it is NULL or of another family.
    explicit address(const sockaddr *shown);

    explicit operator bool() const { return bytes.ss_family != AF_UNSPEC; }
    int family() const { return bytes.ss_family; }
    const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&bytes); }
    socklen_t length() const;
    /// In numbers; "none".
    std::string text() const;
    /// The same host, whatever the port.
    bool same_host(const address &other) const;
    bool is_loopback() const;

  private:
    sockaddr_storage bytes = {};
};

/// All addresses of a host, by name or in numbers. Throws std::runtime_error with words.
std::vector<address> resolve(const std::string &host);

/// The address from which this machine would send there; none if it knows no way.
address source_for(const address &there);

/// The network interface that has the address; empty if none has.
std::string interface_of(const address &here);

} // namespace tools::dat

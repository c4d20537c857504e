// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "dat_common/address.hpp"

#include <cstring>
#include <ifaddrs.h>
#include <memory>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdexcept>
#include <unistd.h>

namespace tools::dat {
namespace {

socklen_t sockaddr_length(int family) {
    switch (family) {
    case AF_INET:
        return sizeof(sockaddr_in);
    case AF_INET6:
        return sizeof(sockaddr_in6);
    default:
        return 0;
    }
}

template <class Sockaddr>
Sockaddr copy_as(const sockaddr *addr) {
    Sockaddr copy;
    std::memcpy(&copy, addr, sizeof copy);
    return copy;
}

} // namespace

address::address(const sockaddr *addr) {
    if (addr)
        std::memcpy(&storage_, addr, sockaddr_length(addr->sa_family));
}

socklen_t address::length() const {
    return sockaddr_length(family());
}

std::string address::to_string() const {
    char text[NI_MAXHOST];
    sockaddr_storage storage = storage_;
    if (family() == AF_INET6) {
        // OFED's ucm provider stores other data in sin6_scope_id.
        auto addr = copy_as<sockaddr_in6>(get());
        char name[IF_NAMESIZE];
        if (!if_indextoname(addr.sin6_scope_id, name))
            addr.sin6_scope_id = 0;
        std::memcpy(&storage, &addr, sizeof addr);
    }
    if (!*this || getnameinfo(reinterpret_cast<const sockaddr *>(&storage), length(), text,
                              sizeof text, nullptr, 0, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return "none";
    return text;
}

bool address::is_same_host(const address &other) const {
    if (!*this || family() != other.family())
        return false;
    if (family() == AF_INET)
        return copy_as<sockaddr_in>(get()).sin_addr.s_addr ==
               copy_as<sockaddr_in>(other.get()).sin_addr.s_addr;
    const auto addr = copy_as<sockaddr_in6>(get()), other_addr = copy_as<sockaddr_in6>(other.get());
    return std::memcmp(&addr.sin6_addr, &other_addr.sin6_addr, sizeof addr.sin6_addr) == 0;
}

bool address::is_loopback() const {
    if (family() == AF_INET)
        return ntohl(copy_as<sockaddr_in>(get()).sin_addr.s_addr) >> 24 == 127;
    const auto addr = family() == AF_INET6 ? copy_as<sockaddr_in6>(get()) : sockaddr_in6();
    return IN6_IS_ADDR_LOOPBACK(&addr.sin6_addr);
}

std::vector<address> resolve(const std::string &host) {
    addrinfo hints = {}, *result = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    const int error = getaddrinfo(host.c_str(), nullptr, &hints, &result);
    if (error != 0)
        throw std::runtime_error(host + ": " + gai_strerror(error));
    const std::unique_ptr<addrinfo, void (*)(addrinfo *)> list(result, freeaddrinfo);
    std::vector<address> addresses;
    for (const addrinfo *info = result; info; info = info->ai_next)
        if (const address addr(info->ai_addr); addr)
            addresses.push_back(addr);
    if (addresses.empty())
        throw std::runtime_error(host + ": has no IPv4 or IPv6 address");
    return addresses;
}

/// The local address that the kernel uses to send to the destination; empty if it is unreachable.
address source_address_for(const address &destination) {
    const int fd = socket(destination.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return {};
    sockaddr_storage source = {};
    socklen_t length = sizeof source;
    // Connecting a UDP socket sends nothing.
    const bool is_reachable = connect(fd, destination.get(), destination.length()) == 0 &&
                              getsockname(fd, reinterpret_cast<sockaddr *>(&source), &length) == 0;
    close(fd);
    return is_reachable ? address(reinterpret_cast<const sockaddr *>(&source)) : address();
}

/// The network interface that has this address; "" if none has.
std::string find_netdev(const address &addr) {
    ifaddrs *interfaces = nullptr;
    if (getifaddrs(&interfaces) != 0)
        return {};
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs *)> list(interfaces, freeifaddrs);
    for (const ifaddrs *interface = interfaces; interface; interface = interface->ifa_next)
        if (address(interface->ifa_addr).is_same_host(addr))
            return interface->ifa_name;
    return {};
}

} // namespace tools::dat

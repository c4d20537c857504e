// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "dat/address.hpp"

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

socklen_t length_of(int family) {
    switch (family) {
    case AF_INET:
        return sizeof(sockaddr_in);
    case AF_INET6:
        return sizeof(sockaddr_in6);
    default:
        return 0;
    }
}

template <class Kind>
Kind as(const sockaddr *shown) {
    Kind copy;
    std::memcpy(&copy, shown, sizeof copy);
    return copy;
}

} // namespace

address::address(const sockaddr *shown) {
    if (shown)
        std::memcpy(&bytes, shown, length_of(shown->sa_family));
}

socklen_t address::length() const {
    return length_of(family());
}

std::string address::text() const {
    char numbers[NI_MAXHOST];
    sockaddr_storage shown = bytes;
    if (family() == AF_INET6) {
        // OFED's ucm keeps other things in a sockaddr_in6.
        auto plain = as<sockaddr_in6>(get());
        char name[IF_NAMESIZE];
        if (!if_indextoname(plain.sin6_scope_id, name))
            plain.sin6_scope_id = 0;
        std::memcpy(&shown, &plain, sizeof plain);
    }
    if (!*this || getnameinfo(reinterpret_cast<const sockaddr *>(&shown), length(), numbers,
                              sizeof numbers, nullptr, 0, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return "none";
    return numbers;
}

bool address::same_host(const address &other) const {
    if (!*this || family() != other.family())
        return false;
    if (family() == AF_INET)
        return as<sockaddr_in>(get()).sin_addr.s_addr ==
               as<sockaddr_in>(other.get()).sin_addr.s_addr;
    const auto mine = as<sockaddr_in6>(get()), theirs = as<sockaddr_in6>(other.get());
    return std::memcmp(&mine.sin6_addr, &theirs.sin6_addr, sizeof mine.sin6_addr) == 0;
}

bool address::is_loopback() const {
    if (family() == AF_INET)
        return ntohl(as<sockaddr_in>(get()).sin_addr.s_addr) >> 24 == 127;
    const auto mine = family() == AF_INET6 ? as<sockaddr_in6>(get()) : sockaddr_in6();
    return IN6_IS_ADDR_LOOPBACK(&mine.sin6_addr);
}

std::vector<address> resolve(const std::string &host) {
    addrinfo wanted = {}, *found = nullptr;
    wanted.ai_socktype = SOCK_STREAM;
    const int problem = getaddrinfo(host.c_str(), nullptr, &wanted, &found);
    if (problem != 0)
        throw std::runtime_error(host + ": " + gai_strerror(problem));
    const std::unique_ptr<addrinfo, void (*)(addrinfo *)> list(found, freeaddrinfo);
    std::vector<address> all;
    for (const addrinfo *each = found; each; each = each->ai_next)
        if (const address one(each->ai_addr); one)
            all.push_back(one);
    if (all.empty())
        throw std::runtime_error(host + ": has no address of IPv4 or IPv6");
    return all;
}

address source_for(const address &there) {
    const int made = socket(there.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (made < 0)
        return {};
    sockaddr_storage mine = {};
    socklen_t length = sizeof mine;
    const bool known = connect(made, there.get(), there.length()) == 0 && // sends nothing
                       getsockname(made, reinterpret_cast<sockaddr *>(&mine), &length) == 0;
    close(made);
    return known ? address(reinterpret_cast<const sockaddr *>(&mine)) : address();
}

std::string interface_of(const address &here) {
    ifaddrs *found = nullptr;
    if (getifaddrs(&found) != 0)
        return {};
    const std::unique_ptr<ifaddrs, void (*)(ifaddrs *)> list(found, freeifaddrs);
    for (const ifaddrs *each = found; each; each = each->ifa_next)
        if (address(each->ifa_addr).same_host(here))
            return each->ifa_name;
    return {};
}

} // namespace tools::dat

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The network interfaces of the played machine, and the C library's functions that list them.

#include "manager.hpp"

#include <arpa/inet.h>
#include <cstring>
#include <ifaddrs.h>
#include <net/if.h>

namespace {

struct interface {
    const char *name;
    const char *address;
    int device; ///< -1: none
    unsigned flags;
};

constexpr std::array<interface, 6> interfaces{{
    {"lo", "127.0.0.1", -1, IFF_UP | IFF_LOOPBACK},
    {"plain0", "198.51.100.1", -1, IFF_UP},
    {"roce0", "2001:db8::1", 0, IFF_UP},
    {"roce0", "192.0.2.1", 0, IFF_UP},
    {"iwarp0", "192.0.2.2", 1, IFF_UP},
    {"link0", nullptr, -1, IFF_UP},
}};

sockaddr_storage parsed(const char *text) {
    sockaddr_storage at = {};
    if (auto &v4 = reinterpret_cast<sockaddr_in &>(at); inet_pton(AF_INET, text, &v4.sin_addr) == 1)
        v4.sin_family = AF_INET;
    if (auto &v6 = reinterpret_cast<sockaddr_in6 &>(at);
        at.ss_family == 0 && inet_pton(AF_INET6, text, &v6.sin6_addr) == 1)
        v6.sin6_family = AF_INET6;
    return at;
}

const interface *found(const sockaddr &address) {
    for (const interface &each : interfaces) {
        if (each.address == nullptr)
            continue;
        const sockaddr_storage at = parsed(each.address);
        if (played::same_host(reinterpret_cast<const sockaddr &>(at), address))
            return &each;
    }
    return nullptr;
}

struct listed : ifaddrs {
    sockaddr_storage at;
};

} // namespace

namespace played {

bool same_host(const sockaddr &one, const sockaddr &other) {
    if (one.sa_family != other.sa_family)
        return false;
    if (one.sa_family == AF_INET)
        return reinterpret_cast<const sockaddr_in &>(one).sin_addr.s_addr ==
               reinterpret_cast<const sockaddr_in &>(other).sin_addr.s_addr;
    return std::memcmp(&reinterpret_cast<const sockaddr_in6 &>(one).sin6_addr,
                       &reinterpret_cast<const sockaddr_in6 &>(other).sin6_addr,
                       sizeof(in6_addr)) == 0;
}

std::uint16_t port_of(const sockaddr &address) {
    return ntohs(address.sa_family == AF_INET6
                     ? reinterpret_cast<const sockaddr_in6 &>(address).sin6_port
                     : reinterpret_cast<const sockaddr_in &>(address).sin_port);
}

void set_port(sockaddr &address, std::uint16_t port) {
    (address.sa_family == AF_INET6 ? reinterpret_cast<sockaddr_in6 &>(address).sin6_port
                                   : reinterpret_cast<sockaddr_in &>(address).sin_port) =
        htons(port);
}

hardware *device_at(const sockaddr &address) {
    const interface *const at = found(address);
    return at != nullptr && at->device >= 0
               ? &net().devices.at(static_cast<std::size_t>(at->device))
               : nullptr;
}

bool is_here(const sockaddr &address) {
    return found(address) != nullptr;
}

} // namespace played

extern "C" {

int getifaddrs(ifaddrs **list) noexcept {
    ifaddrs *first = nullptr;
    const played::entered call;
    if (const int error = played::fault("getifaddrs")) {
        errno = error;
        return -1;
    }
    for (auto each = interfaces.rbegin(); each != interfaces.rend(); ++each) {
        auto *const made = new listed{};
        made->ifa_next = first;
        made->ifa_name = const_cast<char *>(each->name);
        made->ifa_flags = each->flags;
        if (each->address != nullptr) {
            made->at = parsed(each->address);
            made->ifa_addr = reinterpret_cast<sockaddr *>(&made->at);
        }
        first = made;
    }
    played::net().living("getifaddrs", 1);
    *list = first;
    return 0;
}

void freeifaddrs(ifaddrs *list) noexcept {
    const played::entered call;
    if (list != nullptr)
        played::net().living("getifaddrs", -1);
    while (list != nullptr) {
        auto *const one = static_cast<listed *>(list);
        list = list->ifa_next;
        delete one;
    }
}

unsigned if_nametoindex(const char *name) noexcept {
    for (std::size_t at = 0; at != interfaces.size(); ++at)
        if (std::strcmp(interfaces.at(at).name, name) == 0)
            return static_cast<unsigned>(at) + 1;
    return 0;
}
}

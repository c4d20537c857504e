// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The network interfaces of the fake machine, and the C library's functions that list them.

#include "manager.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>
#include <ifaddrs.h>
#include <net/if.h>

namespace {

/// An IPv4 or IPv6 address.
sockaddr_storage parse(const std::string &text) {
    sockaddr_storage addr = {};
    if (auto &sin = reinterpret_cast<sockaddr_in &>(addr);
        inet_pton(AF_INET, text.c_str(), &sin.sin_addr) == 1)
        sin.sin_family = AF_INET;
    if (auto &sin6 = reinterpret_cast<sockaddr_in6 &>(addr);
        addr.ss_family == 0 && inet_pton(AF_INET6, text.c_str(), &sin6.sin6_addr) == 1)
        sin6.sin6_family = AF_INET6;
    return addr;
}

/// The interface with this address, or nullptr.
const fake::interface_address *find_interface(const sockaddr &address) {
    for (const fake::interface_address &entry : fake::get_fabric().addresses) {
        const sockaddr_storage addr = parse(entry.address);
        if (fake::same_host(reinterpret_cast<const sockaddr &>(addr), address))
            return &entry;
    }
    return nullptr;
}

struct ifaddrs_entry : ifaddrs {
    std::string name;
    sockaddr_storage addr;
};

} // namespace

namespace fake {

std::vector<interface_address> initial_addresses() {
    return {
        {"lo", "127.0.0.1", -1, IFF_UP | IFF_LOOPBACK},
        {"plain0", "198.51.100.1", -1, IFF_UP},
        {"roce0", "2001:db8::1", 0, IFF_UP},
        {"roce0", "192.0.2.1", 0, IFF_UP},
        {"iwarp0", "192.0.2.2", 1, IFF_UP},
        {"iwarp0", "2001:db8::2", 1, IFF_UP},
        {"link0", "", -1, IFF_UP},
    };
}

void fabric::add_address(const char *interface, const char *address) {
    const library_call_guard call;
    const auto entry = std::ranges::find(addresses, interface, &interface_address::interface);
    addresses.push_back({interface, address, entry->device, entry->flags});
}

void fabric::remove_address(const char *address) {
    const library_call_guard call;
    std::erase_if(addresses,
                  [address](const interface_address &it) { return it.address == address; });
}

bool same_host(const sockaddr &a, const sockaddr &b) {
    if (a.sa_family != b.sa_family)
        return false;
    if (a.sa_family == AF_INET)
        return reinterpret_cast<const sockaddr_in &>(a).sin_addr.s_addr ==
               reinterpret_cast<const sockaddr_in &>(b).sin_addr.s_addr;
    return std::memcmp(&reinterpret_cast<const sockaddr_in6 &>(a).sin6_addr,
                       &reinterpret_cast<const sockaddr_in6 &>(b).sin6_addr, sizeof(in6_addr)) == 0;
}

std::uint16_t get_port(const sockaddr &address) {
    return ntohs(address.sa_family == AF_INET6
                     ? reinterpret_cast<const sockaddr_in6 &>(address).sin6_port
                     : reinterpret_cast<const sockaddr_in &>(address).sin_port);
}

void set_port(sockaddr &address, std::uint16_t port) {
    (address.sa_family == AF_INET6 ? reinterpret_cast<sockaddr_in6 &>(address).sin6_port
                                   : reinterpret_cast<sockaddr_in &>(address).sin_port) =
        htons(port);
}

fake_device *find_device(const sockaddr &address) {
    const interface_address *const entry = find_interface(address);
    return entry != nullptr && entry->device >= 0
               ? &get_fabric().devices.at(static_cast<std::size_t>(entry->device))
               : nullptr;
}

bool is_local(const sockaddr &address) {
    return find_interface(address) != nullptr;
}

bool has_route(const sockaddr &address) {
    constexpr std::size_t subnet4 = 3, subnet6 = 8; // bytes
    return std::ranges::any_of(get_fabric().addresses, [&](const interface_address &entry) {
        const sockaddr_storage local = parse(entry.address);
        if (local.ss_family != address.sa_family)
            return false;
        if (address.sa_family == AF_INET)
            return std::memcmp(&reinterpret_cast<const sockaddr_in &>(local).sin_addr,
                               &reinterpret_cast<const sockaddr_in &>(address).sin_addr,
                               subnet4) == 0;
        return std::memcmp(&reinterpret_cast<const sockaddr_in6 &>(local).sin6_addr,
                           &reinterpret_cast<const sockaddr_in6 &>(address).sin6_addr,
                           subnet6) == 0;
    });
}

} // namespace fake

extern "C" {

int getifaddrs(ifaddrs **list) noexcept {
    ifaddrs *head = nullptr;
    const fake::library_call_guard call;
    if (const int error = fake::injected_error("getifaddrs")) {
        errno = error;
        return -1;
    }
    const auto &addresses = fake::get_fabric().addresses;
    for (auto it = addresses.rbegin(); it != addresses.rend(); ++it) {
        auto *const entry = new ifaddrs_entry{};
        entry->ifa_next = head;
        entry->name = it->interface;
        entry->ifa_name = entry->name.data();
        entry->ifa_flags = it->flags;
        if (!it->address.empty()) {
            entry->addr = parse(it->address);
            entry->ifa_addr = reinterpret_cast<sockaddr *>(&entry->addr);
        }
        head = entry;
    }
    fake::get_fabric().adjust_object_count("getifaddrs", 1);
    *list = head;
    return 0;
}

void freeifaddrs(ifaddrs *list) noexcept {
    const fake::library_call_guard call;
    if (list != nullptr)
        fake::get_fabric().adjust_object_count("getifaddrs", -1);
    while (list != nullptr) {
        auto *const entry = static_cast<ifaddrs_entry *>(list);
        list = list->ifa_next;
        delete entry;
    }
}

unsigned if_nametoindex(const char *name) noexcept {
    const fake::library_call_guard call;
    const auto &addresses = fake::get_fabric().addresses;
    for (std::size_t i = 0; i != addresses.size(); ++i)
        if (addresses.at(i).interface == name)
            return static_cast<unsigned>(i) + 1;
    return 0;
}
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The device of an address is the one to which rdma_cm binds an rdma_cm_id with that address, since
// rdma_cm also chooses the device for connections.

#include "device.hpp"

#include "dapl/core/fork_guard.hpp"

#include <algorithm>
#include <cerrno>
#include <coherdma/coherdma.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ifaddrs.h>
#include <mutex>
#include <netdb.h>
#include <new>

namespace coherdma::dapl {

address_text to_text(const sockaddr &sa) noexcept {
    address_text text = {'?'};
    std::array<char, INET6_ADDRSTRLEN + IF_NAMESIZE> host;
    std::array<char, sizeof "65535"> port;
    const bool is_v6 = sa.sa_family == AF_INET6;
    if (address::is_ip(&sa) &&
        getnameinfo(&sa, is_v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in), host.data(),
                    host.size(), port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV) == 0)
        std::snprintf(text.data(), text.size(), is_v6 ? "[%s]:%s" : "%s:%s", host.data(),
                      port.data());
    return text;
}

address to_address(const sockaddr *sa) noexcept {
    address addr = {};
    std::memcpy(&addr, sa, sa->sa_family == AF_INET6 ? sizeof addr.sin6 : sizeof addr.sin);
    return addr;
}

bool address::has_same_ip(const address &other) const noexcept {
    if (sa.sa_family != other.sa.sa_family)
        return false;
    return sa.sa_family == AF_INET
               ? sin.sin_addr.s_addr == other.sin.sin_addr.s_addr
               : std::memcmp(&sin6.sin6_addr, &other.sin6.sin6_addr, sizeof sin6.sin6_addr) == 0;
}

const address *device::find_address(int family) const noexcept {
    const address *addr = addresses;
    while (addr->sa.sa_family != AF_UNSPEC && addr->sa.sa_family != family)
        ++addr;
    return addr->sa.sa_family != AF_UNSPEC ? addr : nullptr;
}

const address &device::find_local_address(const address &local) const noexcept {
    const std::lock_guard guard(lists_lock);
    for (const auto &list : address_lists)
        for (const address &addr : list)
            if (addr.has_same_ip(local))
                return addr;
    return addresses[0];
}

namespace {

/// Zero if the host is unknown.
address resolve_host(const std::string &host) noexcept {
    address addr = {};
    addrinfo hints = {}, *list = nullptr;
    hints.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(host.c_str(), nullptr, &hints, &list) != 0)
        return addr;
    if (address::is_ip(list->ai_addr))
        addr = to_address(list->ai_addr);
    freeaddrinfo(list);
    return addr;
}

/// Throws std::bad_alloc.
void open_context(device &dev, ibv_device *verbs_device) {
    dev.context = shared_handle<ibv_close_device>(ibv_open_device(verbs_device));
    if (!dev.context && (errno == ENOMEM || errno == EMFILE))
        throw std::bad_alloc();
}

/// Opens the device, if one has this name. port: 0 is the default, 1. Throws std::bad_alloc.
bool open_by_device_name(device &dev, const std::string &name, unsigned long port) {
    const unique_handle<ibv_device *, ibv_free_device_list> list(ibv_get_device_list(nullptr));
    for (ibv_device **it = list.get(); it != nullptr && *it != nullptr; ++it)
        if (name == ibv_get_device_name(*it)) {
            open_context(dev, *it);
            dev.port = static_cast<std::uint8_t>(port == 0 ? 1 : port);
            return true;
        }
    return false;
}

/// Whether rdma_cm binds the address to dev's port; if dev has none, opens it. Throws
/// std::bad_alloc, also if rdma_cm lacks resources.
bool is_of_port(device &dev, address addr) {
    rdma_cm_id *id = nullptr;
    if (rdma_create_id(dev.channel, &id, nullptr, RDMA_PS_TCP) != 0)
        throw std::bad_alloc();
    const unique_handle<rdma_cm_id, rdma_destroy_id> id_owner(id);
    if (rdma_bind_addr(id, &addr.sa) != 0 && errno == ENOMEM)
        throw std::bad_alloc();
    if (!dev.context && id->verbs != nullptr) {
        open_context(dev, id->verbs->device);
        dev.port = id->port_num;
    }
    return dev.is_device_of(*id) && id->port_num == dev.port;
}

/// The addresses of device::update_addresses. list: of getifaddrs. Throws std::bad_alloc.
std::vector<address> find_addresses(device &dev, const ifaddrs *list) {
    std::vector<address> addresses;
    for (const char *ifname = nullptr; list != nullptr; list = list->ifa_next) {
        if (!address::is_ip(list->ifa_addr) ||
            (ifname != nullptr && std::strcmp(ifname, list->ifa_name) != 0))
            continue;
        const address addr = to_address(list->ifa_addr);
        const bool has_name =
            dev.name.empty() ? (list->ifa_flags & IFF_LOOPBACK) == 0
                             : dev.name == list->ifa_name || addr.has_same_ip(dev.named_address);
        if (has_name && is_of_port(dev, addr)) {
            addresses.push_back(addr);
            ifname = list->ifa_name;
        }
    }
    std::stable_partition(addresses.begin(), addresses.end(),
                          [](const address &addr) { return addr.sa.sa_family == AF_INET; });
    addresses.emplace_back(); // the end
    return addresses;
}

/// Queries the device and the port. False: failed.
bool query_attributes(device &dev) noexcept {
    if (ibv_query_device(dev.ctx(), &dev.attr) != 0 ||
        ibv_query_port(dev.ctx(), dev.port, &dev.port_attr) != 0)
        return false;
    dev.iwarp = dev.context->device->transport_type == IBV_TRANSPORT_IWARP;
    dev.has_mw = dev.attr.max_mw > 0 && (dev.attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW) != 0;
    constexpr std::uint64_t atomic_write = std::uint64_t{1} << 40; // IB_UVERBS_DEVICE_ATOMIC_WRITE
    ibv_device_attr_ex attr_ex = {};
    dev.has_atomic_write = ibv_query_device_ex(dev.ctx(), nullptr, &attr_ex) == 0 &&
                           (attr_ex.device_cap_flags_ex & atomic_write) != 0;
    return true;
}

} // namespace

int device::update_addresses() noexcept try {
    const fork_guard fork_waits;
    const std::lock_guard guard(lists_lock); // So that an older list does not replace a later one.
    ifaddrs *interfaces = nullptr;
    if (getifaddrs(&interfaces) != 0)
        return errno;
    const unique_handle<ifaddrs, freeifaddrs> interfaces_owner(interfaces);
    std::vector<address> list = find_addresses(*this, interfaces);
    if (address_lists.empty() ||
        !std::ranges::equal(list, address_lists.front(),
                            [](const address &a, const address &b) { return a.has_same_ip(b); }))
        // release: other threads read the list through this pointer, without the lock.
        addresses.store(address_lists.emplace_front(std::move(list)).data(),
                        std::memory_order_release);
    return 0;
} catch (const std::bad_alloc &) {
    return ENOMEM;
}

/// instance_data: "DEVICE PORT", or an interface, address or host.
std::shared_ptr<device> find_device(const char *instance_data, rdma_event_channel *channel) {
    const std::string text = instance_data;
    const std::size_t end = std::min(text.find_first_of(" \t"), text.size());
    const std::string name = text.substr(0, end);
    const unsigned long port = std::strtoul(text.c_str() + end, nullptr, 10);
    if (name.empty() || port > 255)
        return nullptr;
    auto dev = std::make_shared<device>();
    if (!open_by_device_name(*dev, name, port)) {
        dev->name = name;
        if (if_nametoindex(name.c_str()) == 0)
            dev->named_address = resolve_host(name);
    } else if (!dev->context) { // Another device must not be used instead.
        return nullptr;
    }
    dev->channel = channel;
    const int error = dev->update_addresses(); // If it fails, the device may have none yet.
    if (!dev->context && (error == ENOMEM || error == EMFILE))
        throw std::bad_alloc();
    return dev->context && query_attributes(*dev) ? dev : nullptr;
}

} // namespace coherdma::dapl

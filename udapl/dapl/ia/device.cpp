// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The device of an address is the one to which rdma_cm binds an rdma_cm_id with that address, since
// rdma_cm also chooses the device for connections.

#include "device.hpp"

#include <algorithm>
#include <coherdma/coherdma.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ifaddrs.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <string>

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

device::~device() {
    if (contexts != nullptr)
        rdma_free_devices(contexts);
}

const address *device::find_address(int family) const noexcept {
    const auto end = addresses.begin() + num_addresses;
    const auto it = std::find_if(addresses.begin(), end, [family](const address &addr) {
        return addr.sa.sa_family == family;
    });
    return it != end ? it : nullptr;
}

namespace {

struct device_port {
    ibv_context *verbs = nullptr;
    std::uint8_t port = 0;
};

/// The device and port to which rdma_cm binds this address; verbs is nullptr if there is none.
device_port port_of_address(address addr, rdma_event_channel *channel) noexcept {
    device_port result;
    rdma_cm_id *id = nullptr;
    if (rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) != 0)
        return result;
    if (rdma_bind_addr(id, &addr.sa) == 0 && id->verbs != nullptr)
        result = {id->verbs, id->port_num};
    rdma_destroy_id(id);
    return result;
}

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

using ifaddrs_list = std::unique_ptr<ifaddrs, decltype(&freeifaddrs)>;

ifaddrs_list get_interfaces() noexcept {
    ifaddrs *list = nullptr;
    return {getifaddrs(&list) == 0 ? list : nullptr, freeifaddrs};
}

/// Sets the device, if one has this name. port: 0 is the default, 1.
bool set_by_device_name(device &dev, const std::string &name, unsigned long port) noexcept {
    for (ibv_context **ctx = dev.contexts; ctx != nullptr && *ctx != nullptr; ++ctx)
        if (name == ibv_get_device_name((*ctx)->device)) {
            dev.ctx = *ctx;
            dev.port = static_cast<std::uint8_t>(port == 0 ? 1 : port);
            return true;
        }
    return false;
}

/// Sets dev.addresses: those with dev.name, or of the first interface if it is empty, that rdma_cm
/// binds to the same port. If no device is set, sets that of the first. list: of getifaddrs.
void set_addresses(device &dev, const ifaddrs *list, rdma_event_channel *channel) noexcept {
    for (const char *ifname = nullptr; list != nullptr && dev.num_addresses < dev.addresses.size();
         list = list->ifa_next) {
        if (!address::is_ip(list->ifa_addr))
            continue;
        const address addr = to_address(list->ifa_addr);
        const bool is_named =
            dev.name.empty() ? (list->ifa_flags & IFF_LOOPBACK) == 0 &&
                                   (ifname == nullptr || std::strcmp(ifname, list->ifa_name) == 0)
                             : dev.name == list->ifa_name || addr.has_same_ip(dev.named_address);
        const device_port bound = is_named ? port_of_address(addr, channel) : device_port{};
        if (bound.verbs == nullptr)
            continue;
        if (dev.ctx == nullptr) {
            dev.ctx = bound.verbs;
            dev.port = bound.port;
        }
        if (bound.verbs != dev.ctx || bound.port != dev.port)
            continue;
        dev.addresses.at(dev.num_addresses++) = addr;
        ifname = list->ifa_name;
    }
    std::stable_partition(dev.addresses.begin(), dev.addresses.begin() + dev.num_addresses,
                          [](const address &addr) { return addr.sa.sa_family == AF_INET; });
}

/// Queries the device and the port. False: failed.
bool query_attributes(device &dev) noexcept {
    if (ibv_query_device(dev.ctx, &dev.attr) != 0 ||
        ibv_query_port(dev.ctx, dev.port, &dev.port_attr) != 0)
        return false;
    dev.iwarp = dev.ctx->device->transport_type == IBV_TRANSPORT_IWARP;
    dev.has_mw = dev.attr.max_mw > 0 && (dev.attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW) != 0;
    constexpr std::uint64_t atomic_write = std::uint64_t{1} << 40; // IB_UVERBS_DEVICE_ATOMIC_WRITE
    ibv_device_attr_ex attr_ex = {};
    dev.has_atomic_write = ibv_query_device_ex(dev.ctx, nullptr, &attr_ex) == 0 &&
                           (attr_ex.device_cap_flags_ex & atomic_write) != 0;
    return true;
}

} // namespace

/// instance_data: "DEVICE PORT", or an interface, address or host.
std::shared_ptr<device> find_device(const char *instance_data, rdma_event_channel *channel) {
    const std::string text = instance_data;
    const std::size_t end = std::min(text.find_first_of(" \t"), text.size());
    const std::string name = text.substr(0, end);
    const unsigned long port = std::strtoul(text.c_str() + end, nullptr, 10);
    if (name.empty() || port > 255)
        return nullptr;
    auto dev = std::make_shared<device>();
    int num_devices = 0;
    dev->contexts = rdma_get_devices(&num_devices);
    if (!set_by_device_name(*dev, name, port)) {
        dev->name = name;
        if (if_nametoindex(name.c_str()) == 0)
            dev->named_address = resolve_host(name);
    }
    set_addresses(*dev, get_interfaces().get(), channel);
    return dev->ctx != nullptr && query_attributes(*dev) ? dev : nullptr;
}

} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Which device an address belongs to is asked of the connection manager, which decides when it
// comes to connections: an id that is bound to the address has the device.

#include "device.hpp"

#include "events.hpp"

#include <algorithm>
#include <coherdma/coherdma.h>
#include <cstdlib>
#include <cstring>
#include <ifaddrs.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <string>

namespace coherdma::dapl {

device::~device() {
    if (opened != nullptr)
        rdma_free_devices(opened);
}

const address *device::of_family(int family) const noexcept {
    const auto end = addresses.begin() + count;
    const auto found = std::find_if(addresses.begin(), end, [family](const address &one) {
        return one.any.sa_family == family;
    });
    return found != end ? found : nullptr;
}

namespace {

struct place {
    ibv_context *verbs = nullptr;
    std::uint8_t port = 0;
};

/// Where connections of this address are made.
place place_of(const sockaddr *of) noexcept {
    place found;
    rdma_cm_id *id = nullptr;
    if (rdma_create_id(events::channel(), &id, nullptr, RDMA_PS_TCP) != 0)
        return found;
    address copy = {};
    std::memcpy(&copy, of, of->sa_family == AF_INET6 ? sizeof copy.v6 : sizeof copy.v4);
    copy.port() = 0;
    if (rdma_bind_addr(id, &copy.any) == 0 && id->verbs != nullptr)
        found = {id->verbs, id->port_num};
    rdma_destroy_id(id);
    return found;
}

bool is_usable(const sockaddr *of) noexcept {
    return of != nullptr && (of->sa_family == AF_INET || of->sa_family == AF_INET6);
}

bool same(const sockaddr *one, const sockaddr *other) noexcept {
    if (one->sa_family != other->sa_family)
        return false;
    const auto &a = *reinterpret_cast<const address *>(one);
    const auto &b = *reinterpret_cast<const address *>(other);
    return one->sa_family == AF_INET
               ? a.v4.sin_addr.s_addr == b.v4.sin_addr.s_addr
               : std::memcmp(&a.v6.sin6_addr, &b.v6.sin6_addr, sizeof a.v6.sin6_addr) == 0;
}

/// The address that a word is: in numbers or a host's name.
address resolved(const std::string &word) noexcept {
    address found = {};
    addrinfo wanted = {}, *list = nullptr;
    wanted.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(word.c_str(), nullptr, &wanted, &list) != 0)
        return found;
    if (is_usable(list->ai_addr))
        std::memcpy(&found, list->ai_addr, std::min<std::size_t>(list->ai_addrlen, sizeof found));
    freeaddrinfo(list);
    return found;
}

using interfaces = std::unique_ptr<ifaddrs, decltype(&freeifaddrs)>;

interfaces all_interfaces() noexcept {
    ifaddrs *list = nullptr;
    return {getifaddrs(&list) == 0 ? list : nullptr, freeifaddrs};
}

bool by_device_name(device &one, const std::string &word, unsigned long port) noexcept {
    for (ibv_context **each = one.opened; each != nullptr && *each != nullptr; ++each)
        if (word == ibv_get_device_name((*each)->device)) {
            one.verbs = *each;
            one.port = static_cast<std::uint8_t>(port == 0 ? 1 : port);
            return true;
        }
    return false;
}

bool by_interface(device &one, const std::string &word, const ifaddrs *list) noexcept {
    const address wanted = if_nametoindex(word.c_str()) != 0 ? address{} : resolved(word);
    for (; list != nullptr; list = list->ifa_next) {
        if (!is_usable(list->ifa_addr) ||
            (word != list->ifa_name && !same(list->ifa_addr, &wanted.any)))
            continue;
        const place found = place_of(list->ifa_addr);
        if (found.verbs == nullptr)
            continue;
        one.verbs = found.verbs;
        one.port = found.port;
        std::strncpy(one.interface.data(), list->ifa_name, one.interface.size() - 1);
        return true;
    }
    return false;
}

/// Its addresses: all that lead to the same port, IPv4 first.
void collect(device &one, const ifaddrs *list) noexcept {
    for (; list != nullptr && one.count < one.addresses.size(); list = list->ifa_next) {
        if (!is_usable(list->ifa_addr) || (list->ifa_flags & IFF_LOOPBACK) != 0)
            continue;
        if (one.interface[0] != '\0' && std::strcmp(one.interface.data(), list->ifa_name) != 0)
            continue;
        const place found = place_of(list->ifa_addr);
        if (found.verbs != one.verbs || found.port != one.port)
            continue;
        address &next = one.addresses.at(one.count++);
        std::memcpy(&next, list->ifa_addr,
                    list->ifa_addr->sa_family == AF_INET6 ? sizeof next.v6 : sizeof next.v4);
        if (one.interface[0] == '\0')
            std::strncpy(one.interface.data(), list->ifa_name, one.interface.size() - 1);
    }
    std::stable_sort(one.addresses.begin(), one.addresses.begin() + one.count,
                     [](const address &a, const address &b) {
                         return a.any.sa_family == AF_INET && b.any.sa_family != AF_INET;
                     });
}

bool describe(device &one) noexcept {
    if (ibv_query_device(one.verbs, &one.limits) != 0 ||
        ibv_query_port(one.verbs, one.port, &one.state) != 0)
        return false;
    one.iwarp = one.verbs->device->transport_type == IBV_TRANSPORT_IWARP;
    one.windows =
        one.limits.max_mw > 0 && (one.limits.device_cap_flags & IBV_DEVICE_MEM_WINDOW) != 0;
    constexpr std::uint64_t has_atomic_write = std::uint64_t{1}
                                               << 40; // IB_UVERBS_DEVICE_ATOMIC_WRITE
    ibv_device_attr_ex more = {};
    one.atomic_writes = ibv_query_device_ex(one.verbs, nullptr, &more) == 0 &&
                        (more.device_cap_flags_ex & has_atomic_write) != 0;
    return true;
}

} // namespace

std::shared_ptr<device> find_device(const char *words) noexcept {
    const std::string all = words;
    const std::size_t end = std::min(all.find_first_of(" \t"), all.size());
    const std::string word = all.substr(0, end);
    const unsigned long port = std::strtoul(all.c_str() + end, nullptr, 10);
    if (word.empty() || port > 255)
        return nullptr;
    auto found = std::make_shared<device>();
    int count = 0;
    found->opened = rdma_get_devices(&count);
    const interfaces list = all_interfaces();
    if (!by_device_name(*found, word, port) && !by_interface(*found, word, list.get()))
        return nullptr;
    collect(*found, list.get());
    return describe(*found) ? found : nullptr;
}

} // namespace coherdma::dapl

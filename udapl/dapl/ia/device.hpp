// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The port of an RDMA device that an IA uses, and its addresses.
#pragma once

#include "dapl/core/lock.hpp"
#include "dapl/core/unique_handle.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <forward_list>
#include <infiniband/verbs.h>
#include <memory>
#include <net/if.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <string>
#include <sys/socket.h>
#include <vector>

namespace coherdma::dapl {

union address {
    sockaddr sa;
    sockaddr_in sin;
    sockaddr_in6 sin6;

    static bool is_ip(const sockaddr *sa) noexcept {
        return sa != nullptr && (sa->sa_family == AF_INET || sa->sa_family == AF_INET6);
    }
    /// Compares without the port.
    bool has_same_ip(const address &other) const noexcept;
    in_port_t &port() noexcept { return sa.sa_family == AF_INET6 ? sin6.sin6_port : sin.sin_port; }
};

/// "10.0.0.1:4000", "[fe80::1%eth0]:4000", or "?" if it is no address of IP.
using address_text = std::array<char, INET6_ADDRSTRLEN + IF_NAMESIZE + sizeof "[]:65535">;
address_text to_text(const sockaddr &sa) noexcept;

/// sa: of IPv4 or IPv6.
address to_address(const sockaddr *sa) noexcept;

struct device {
    /// The first of `addresses` of this family, or nullptr.
    const address *find_address(int family) const noexcept;
    /// The address with this IP, also one that has gone; else the first of `addresses`. It lives as
    /// long as the device.
    const address &find_local_address(const address &local) const noexcept;
    /// Sets `addresses` to those that exist now, have the name, are of one interface and that
    /// rdma_cm binds to the port; IPv4 first. If no device is set, sets that of the first. 0 or an
    /// errno.
    int update_addresses() noexcept;

    /// True: soft-iWARP, which has the vendor ID "bmt".
    bool is_siw() const noexcept { return attr.vendor_id == 0x626d74; }

    bool has_atomics() const noexcept { return !iwarp && attr.atomic_cap != IBV_ATOMIC_NONE; }
    bool has_ud() const noexcept { return !iwarp; }

    ibv_context *ctx() const noexcept { return context.get(); }
    /// Whether rdma_cm uses this device for the id, with a context that librdmacm has opened.
    bool is_device_of(const rdma_cm_id &id) const noexcept {
        return id.verbs != nullptr && context && id.verbs->device == context->device;
    }

    /// Of the IA alone: the kernel frees its objects when the process ends. Those of librdmacm are
    /// open in the parent, too, if it has used them before the fork.
    std::shared_ptr<ibv_context> context;
    std::uint8_t port = 1;
    bool iwarp = false;
    bool has_mw = false;
    bool has_atomic_write = false; ///< the RDMA Atomic Write operation
    ibv_device_attr attr = {};
    ibv_port_attr port_attr = {};
    std::string name;           ///< that of an interface, an address or a host; empty: the device's
    address named_address = {}; ///< of the last two; the only address that is used
    rdma_event_channel *channel = nullptr; ///< of the rdma_cm_ids that try addresses
    /// The end has no family (AF_UNSPEC). Lists are replaced, and kept for those that read them.
    std::atomic<const address *> addresses = &no_address;

  private:
    static constexpr address no_address = {};

    mutable mutex lists_lock;
    std::forward_list<std::vector<address>> address_lists; ///< the last first
};

/// instance_data (of dat.conf): an RDMA device, a network interface, an IP address or a host name;
/// optionally followed by a port number. An address, also of a host, is the only one that is used.
/// nullptr: there is none, or it has no RDMA device. channel: used to bind rdma_cm_ids. Throws
/// std::bad_alloc.
std::shared_ptr<device> find_device(const char *instance_data, rdma_event_channel *channel);

} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "cm_objects.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <ifaddrs.h>
#include <initializer_list>
#include <netinet/in.h>
#include <poll.h>

namespace coherdma::probe {
namespace {

using unique_ifaddrs = unique_object<ifaddrs, freeifaddrs>;

/// addr: of family AF_INET or AF_INET6.
sockaddr_storage copy_address(const sockaddr *addr, std::uint16_t port) {
    sockaddr_storage copy = {};
    if (addr->sa_family == AF_INET) {
        sockaddr_in ipv4 = {};
        std::memcpy(&ipv4, addr, sizeof ipv4);
        ipv4.sin_port = htons(port);
        std::memcpy(&copy, &ipv4, sizeof ipv4);
    } else {
        sockaddr_in6 ipv6 = {};
        std::memcpy(&ipv6, addr, sizeof ipv6);
        ipv6.sin6_port = htons(port);
        std::memcpy(&copy, &ipv6, sizeof ipv6);
    }
    return copy;
}

bool is_link_local(const sockaddr *addr) {
    if (addr->sa_family != AF_INET6)
        return false;
    sockaddr_in6 ipv6 = {};
    std::memcpy(&ipv6, addr, sizeof ipv6);
    return IN6_IS_ADDR_LINKLOCAL(&ipv6.sin6_addr) != 0;
}

} // namespace

void destroy_id_and_qp(rdma_cm_id *id) {
    if (id->qp)
        rdma_destroy_qp(id);
    rdma_destroy_id(id);
}

void throw_if_rdma_cm_failed(int result, const char *action) {
    if (result != 0)
        throw_error(errno, action);
}

cm_event_channel::cm_event_channel(std::chrono::milliseconds timeout)
    : timeout_(timeout)
    , channel_(throw_if_null(rdma_create_event_channel(), "opening rdma_cm's device file")) {
    throw_if_rdma_cm_failed(fcntl(channel_->fd, F_SETFL, O_NONBLOCK), "setting O_NONBLOCK");
}

unique_cm_id cm_event_channel::create_id() const {
    rdma_cm_id *id = nullptr;
    throw_if_rdma_cm_failed(rdma_create_id(channel_.get(), &id, nullptr, RDMA_PS_TCP),
                            "creating an rdma_cm_id");
    return unique_cm_id(id);
}

unique_cm_id cm_event_channel::bind(const sockaddr *addr, std::uint16_t port) const {
    sockaddr_storage copy = copy_address(addr, port);
    unique_cm_id id = create_id();
    if (rdma_bind_addr(id.get(), reinterpret_cast<sockaddr *>(&copy)) == 0)
        return id;
    const int error = errno;
    id.reset();
    errno = error;
    return nullptr;
}

/// Binds to the first local address that rdma_cm binds to the device. A link-local one comes last:
/// a peer needs its own name of the link for it.
unique_cm_id cm_event_channel::bind_to_device(const std::string &device, int family) const {
    ifaddrs *list = nullptr;
    throw_if_rdma_cm_failed(getifaddrs(&list), "listing local addresses");
    const unique_ifaddrs list_owner(list);
    for (const bool link_local : {false, true}) {
        for (const ifaddrs *entry = list; entry; entry = entry->ifa_next) {
            const int entry_family = entry->ifa_addr ? entry->ifa_addr->sa_family : AF_UNSPEC;
            if ((entry_family != AF_INET && entry_family != AF_INET6) ||
                (family != AF_UNSPEC && family != entry_family) ||
                is_link_local(entry->ifa_addr) != link_local)
                continue;
            unique_cm_id id = bind(entry->ifa_addr, 0);
            if (id && id->verbs && device == ibv_get_device_name(id->verbs->device))
                return id;
        }
    }
    throw_error(EADDRNOTAVAIL, "looking for an address of the device");
}

bool cm_event_channel::wait(cm_event &event) const {
    return wait(event, timeout_);
}

int cm_event_channel::why_ended(std::chrono::milliseconds timeout) const {
    cm_event event = {};
    if (!wait(event, timeout))
        return 0;
    if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL)
        return ENODEV;
    return event.type == RDMA_CM_EVENT_DISCONNECTED ? ECONNRESET : 0;
}

bool cm_event_channel::wait(cm_event &event, std::chrono::milliseconds timeout) const {
    pollfd pollfd = {.fd = channel_->fd, .events = POLLIN, .revents = 0};
    rdma_cm_event *raw_event = nullptr;
    if (poll(&pollfd, 1, static_cast<int>(timeout.count())) <= 0 ||
        rdma_get_cm_event(channel_.get(), &raw_event) != 0)
        return false;
    const auto *const data = static_cast<const std::uint8_t *>(raw_event->param.conn.private_data);
    event = {.type = raw_event->event, .id = raw_event->id, .private_data = {}};
    // Other events have no param.conn.
    if (data && (event.type == RDMA_CM_EVENT_CONNECT_REQUEST ||
                 event.type == RDMA_CM_EVENT_ESTABLISHED || event.type == RDMA_CM_EVENT_REJECTED))
        event.private_data.assign(data, data + raw_event->param.conn.private_data_len);
    rdma_ack_cm_event(raw_event);
    return true;
}

cm_event cm_event_channel::wait_for(rdma_cm_event_type expected) const {
    cm_event event = {};
    if (!wait(event))
        throw_error(ETIMEDOUT, "waiting for the connection manager");
    if (event.type == RDMA_CM_EVENT_DEVICE_REMOVAL)
        throw_error(ENODEV, "waiting for the connection manager");
    if (event.type != expected)
        throw_error(EPROTO, rdma_event_str(event.type));
    return event;
}

void cm_event_channel::resolve(rdma_cm_id *id, sockaddr *addr) const {
    const int timeout_ms = static_cast<int>(timeout_.count());
    throw_if_rdma_cm_failed(rdma_resolve_addr(id, nullptr, addr, timeout_ms),
                            "resolving the address");
    wait_for(RDMA_CM_EVENT_ADDR_RESOLVED);
    throw_if_rdma_cm_failed(rdma_resolve_route(id, timeout_ms), "resolving the route");
    wait_for(RDMA_CM_EVENT_ROUTE_RESOLVED);
}

void create_qp(rdma_cm_id *id, ibv_pd *pd, ibv_cq *cq) {
    ibv_qp_init_attr attr = make_qp_init_attr(cq);
    throw_if_rdma_cm_failed(rdma_create_qp(id, pd, &attr), "creating a QP");
}

} // namespace coherdma::probe

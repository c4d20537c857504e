// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The active side: an address is resolved, then the route, then the peer is asked.

#include "connection.hpp"

#include "../api.hpp"
#include "../clock.hpp"
#include "../evd.hpp"
#include "../ia.hpp"
#include "../pz.hpp"
#include "../settings.hpp"
#include "extensions/ud.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

namespace coherdma::dapl::cm {

namespace {

constexpr int consumer_reject = 28; ///< InfiniBand's code

void keep(connection &by, const rdma_conn_param &from, std::size_t skip = 0) noexcept {
    const std::size_t size = from.private_data != nullptr ? from.private_data_len : 0;
    by.received = static_cast<std::uint8_t>(size > skip ? size - skip : 0);
    if (by.received != 0)
        std::memcpy(by.peers.data(), static_cast<const char *>(from.private_data) + skip,
                    by.received);
}

/// Whether the peer's program said no, rather than the peer's system.
bool refused_by_program(const ep &one, connection &by, const rdma_cm_event &event) noexcept {
    const rdma_conn_param &with = event.param.conn;
    std::uint32_t word = 0;
    if (with.private_data != nullptr && with.private_data_len >= sizeof word)
        std::memcpy(&word, with.private_data, sizeof word);
    const bool marked = word == htonl(by_program);
    if (word == htonl(by_system))
        return false;
    keep(by, with, marked ? sizeof word : 0);
    // The kernel's iWARP has an errno instead of a code: reset by the peer, which was listening.
    return marked ||
           (one.home->on->iwarp ? event.status == -ECONNRESET : event.status == consumer_reject);
}

int ask(ep &one, connection &by) noexcept {
    if (by.id->verbs != one.home->verbs())
        return EHOSTUNREACH;
    rdma_conn_param with = {};
    with.private_data = by.data.data();
    with.private_data_len = by.size;
    with.responder_resources = static_cast<std::uint8_t>(std::min(one.attr.max_rdma_read_in, 255));
    with.initiator_depth = static_cast<std::uint8_t>(std::min(one.attr.max_rdma_read_out, 255));
    with.flow_control = 1;
    with.retry_count = settings::ack_retry();
    with.rnr_retry_count = settings::rnr_retry();
    with.srq = one.shares;
    with.qp_num = one.qp->qp_num;
    return rdma_connect(by.id, &with) == 0 ? 0 : errno;
}

int resolve_address(ep &one, connection &by) noexcept {
    const address *const from = one.home->on->of_family(one.remote.any.sa_family);
    address source = from != nullptr ? *from : address{};
    return rdma_resolve_addr(by.id, from != nullptr ? &source.any : nullptr, &one.remote.any,
                             settings::arp_timeout()) == 0
               ? 0
               : errno;
}

int resolve_route(connection &by) noexcept {
    return rdma_resolve_route(by.id, settings::route_timeout()) == 0 ? 0 : errno;
}

/// rdma_cm gives an id a port that none of its own has. With iWARP in software (siw) it is a port
/// of TCP, too, and may be somebody's there: a program's, or that of a connection which ended a
/// while ago. That shows when the peer is asked, and another id gets another port.
int with_another_port(ep &one, connection &by, int error) noexcept {
    const auto free = std::find(by.spent.begin(), by.spent.end(), nullptr);
    if (free == by.spent.end())
        return error;
    rdma_cm_id *next = nullptr;
    if (rdma_create_id(events::channel(), &next, static_cast<party *>(&by), RDMA_PS_TCP) != 0)
        return errno;
    bool wanted;
    {
        const holding held(one.guard);
        wanted = one.link == &by;
        if (wanted)
            *free = std::exchange(by.id, next);
    }
    if (wanted)
        return resolve_address(one, by);
    rdma_destroy_id(next); // Whoever ended the attempt has not seen it.
    return 0;
}

/// The peer agrees.
void established(ep &one, connection &by) noexcept {
    {
        const holding held(one.guard);
        const DAT_EP_STATE state = one.now();
        if (one.link != &by || (state != DAT_EP_STATE_ACTIVE_CONNECTION_PENDING &&
                                state != DAT_EP_STATE_COMPLETION_PENDING))
            return;
        one.open();
        one.state.store(DAT_EP_STATE_CONNECTED, std::memory_order_release);
    }
    events::drop(one.when_late);
    tell(one, DAT_CONNECTION_EVENT_ESTABLISHED, &by);
}

void failed_attempt(ep &one, connection &by, DAT_EVENT_NUMBER number) noexcept {
    over(one, by.active ? number : DAT_EVENT_NUMBER(DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR));
}

} // namespace

void tell(ep &one, DAT_EVENT_NUMBER number, const connection *with) noexcept {
    // It may be another IA's, which may have been closed.
    if (as<evd>(one.connect_evd) == nullptr)
        return;
    DAT_EVENT event = {};
    event.event_number = number;
    auto &data = event.event_data.connect_event_data;
    data.ep_handle = &one;
    if (with != nullptr && with->received != 0) {
        data.private_data_size = with->received;
        data.private_data = const_cast<unsigned char *>(with->peers.data());
    }
    one.connect_evd->post(event);
}

void step(ep &one, connection &by, rdma_cm_event &event) noexcept {
    int error = 0;
    switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        error = resolve_route(by);
        break;
    case RDMA_CM_EVENT_ADDR_ERROR:
        error = by.address_tries++ < settings::arp_retries() && event.status == -ETIMEDOUT
                    ? resolve_address(one, by)
                    : EHOSTUNREACH;
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        error = ask(one, by);
        if (error == EADDRINUSE || error == EADDRNOTAVAIL)
            error = with_another_port(one, by, error);
        if (error == ECONNREFUSED || error == ECONNRESET)
            return over(one, DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
        break;
    case RDMA_CM_EVENT_ROUTE_ERROR:
        error = by.route_tries++ < settings::route_retries() ? resolve_route(by) : EHOSTUNREACH;
        break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
        keep(by, event.param.conn);
        error = make_ready(one, by);
        if (error == 0 && rdma_establish(by.id) != 0)
            error = errno;
        if (error != 0)
            return over(one, DAT_CONNECTION_EVENT_BROKEN);
        return established(one, by);
    case RDMA_CM_EVENT_ESTABLISHED:
        if (by.active)
            keep(by, event.param.conn);
        else
            by.received = 0;
        return established(one, by);
    case RDMA_CM_EVENT_REJECTED:
        return failed_attempt(one, by,
                              refused_by_program(one, by, event)
                                  ? DAT_CONNECTION_EVENT_PEER_REJECTED
                                  : DAT_CONNECTION_EVENT_NON_PEER_REJECTED);
    case RDMA_CM_EVENT_UNREACHABLE:
        return failed_attempt(one, by, DAT_CONNECTION_EVENT_UNREACHABLE);
    case RDMA_CM_EVENT_CONNECT_ERROR:
        return failed_attempt(one, by, DAT_CONNECTION_EVENT_BROKEN);
    case RDMA_CM_EVENT_DISCONNECTED:
        // Who ends a connection had it, though the message that said so was lost, or comes too
        // late.
        if (!by.active) {
            by.received = 0;
            established(one, by);
        }
        rdma_disconnect(by.id); // The answer, where the transport has one.
        return over(one, DAT_CONNECTION_EVENT_DISCONNECTED);
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        return over(one, DAT_CONNECTION_EVENT_BROKEN);
    default:
        return;
    }
    if (error != 0)
        over(one, DAT_CONNECTION_EVENT_UNREACHABLE);
}

DAT_RETURN connect(ep &one, const address &to, DAT_CONN_QUAL qualifier, DAT_TIMEOUT timeout,
                   const void *data, DAT_COUNT size) noexcept {
    auto made = std::make_unique<connection>();
    made->active = true;
    made->size = static_cast<std::uint8_t>(size);
    if (size != 0)
        std::memcpy(made->data.data(), data, static_cast<std::size_t>(size));
    if (rdma_create_id(events::channel(), &made->id, static_cast<party *>(made.get()),
                       RDMA_PS_TCP) != 0)
        return failed_with(errno, DAT_RESOURCE_TEP);
    connection &by = *made;
    int error;
    {
        const holding held(one.guard);
        if (one.now() != DAT_EP_STATE_UNCONNECTED)
            return wrong_state(subtype_of(one.now()));
        one.remote = to;
        one.remote_qual = qualifier;
        by.of.store(&one, std::memory_order_release);
        one.link = made.release();
        one.state.store(DAT_EP_STATE_ACTIVE_CONNECTION_PENDING, std::memory_order_release);
        if (timeout != DAT_TIMEOUT_INFINITE)
            events::at(one.when_late, deadline::now() + std::int64_t{timeout} * 1000);
        // With the lock: from its end on another thread may end the attempt.
        error = resolve_address(one, by);
    }
    // What is known at once is told as what is known later: by an event.
    if (error != 0)
        over(one, DAT_CONNECTION_EVENT_UNREACHABLE);
    return DAT_SUCCESS;
}

} // namespace coherdma::dapl::cm

namespace coherdma::dapl {

namespace {

/// What may be connected now. argument: where the private data's size is.
DAT_RETURN check_connect(ep &one, unsigned argument, DAT_COUNT size, const void *data) noexcept {
    if (size < 0 || size > cm::most_private_data)
        return wrong_argument(argument);
    if (size > 0 && data == nullptr)
        return wrong_argument(argument + 1);
    if (one.connect_evd == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EVD_CONN);
    // Datagrams may go to any number of peers.
    if (one.now() != DAT_EP_STATE_UNCONNECTED && !extensions::is_datagram(one.attr))
        return wrong_state(subtype_of(one.now()));
    if (one.zone == nullptr)
        return wrong_state(DAT_INVALID_STATE_EP_NOTREADY);
    return DAT_SUCCESS;
}

bool take_address(const sockaddr *from, address &to) noexcept {
    if (from->sa_family != AF_INET && from->sa_family != AF_INET6)
        return false;
    std::memcpy(&to, from, from->sa_family == AF_INET6 ? sizeof to.v6 : sizeof to.v4);
    return true;
}

} // namespace

DAT_RETURN ep_connect(DAT_EP_HANDLE ep_handle, DAT_IA_ADDRESS_PTR remote, DAT_CONN_QUAL qualifier,
                      DAT_TIMEOUT timeout, DAT_COUNT size, const DAT_PVOID data, DAT_QOS qos,
                      DAT_CONNECT_FLAGS flags) noexcept {
    ep *const one = called_with<ep>(ep_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EP);
    address to = {};
    if (remote == nullptr || !take_address(remote, to))
        return wrong_argument(2);
    if (cm::port_of(qualifier) == 0)
        return wrong_argument(3);
    if (timeout == 0)
        return wrong_argument(4);
    const DAT_RETURN result = check_connect(*one, 5, size, data);
    if (result != DAT_SUCCESS)
        return result;
    if (qos != DAT_QOS_BEST_EFFORT || flags != DAT_CONNECT_DEFAULT_FLAG)
        return failed(DAT_MODEL_NOT_SUPPORTED);
    to.port() = htons(cm::port_of(qualifier));
    if (extensions::is_datagram(one->attr))
        return extensions::resolve(*one, to, timeout, data, size);
    return cm::connect(*one, to, qualifier, timeout, data, size);
}

DAT_RETURN ep_common_connect(DAT_EP_HANDLE ep_handle, DAT_IA_ADDRESS_PTR remote,
                             DAT_TIMEOUT timeout, DAT_COUNT size, const DAT_PVOID data) noexcept {
    ep *const one = called_with<ep>(ep_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EP);
    address to = {};
    if (remote == nullptr || !take_address(remote, to) || to.port() == 0)
        return wrong_argument(2);
    if (timeout == 0)
        return wrong_argument(3);
    const DAT_RETURN result = check_connect(*one, 4, size, data);
    if (result != DAT_SUCCESS)
        return result;
    return cm::connect(*one, to, ntohs(to.port()), timeout, data, size);
}

namespace {

/// Where a connected endpoint of the IA is connected to.
DAT_RETURN peer_of(ia &on, DAT_EP_HANDLE ep_handle, address &to,
                   DAT_CONN_QUAL &qualifier) noexcept {
    ep *const one = on.borrow<ep>(ep_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EP);
    DAT_RETURN result = DAT_SUCCESS;
    {
        const holding held(one->guard);
        to = one->remote;
        qualifier = one->remote_qual;
        if (one->now() != DAT_EP_STATE_CONNECTED)
            result = wrong_state(subtype_of(one->now()));
        // Where the peer listens is known only to who called it.
        else if (one->link == nullptr || !one->link->active)
            result = wrong_state(DAT_INVALID_STATE_EP_NOTREADY);
    }
    on.give_back(one);
    return result;
}

} // namespace

DAT_RETURN ep_dup_connect(DAT_EP_HANDLE ep_handle, DAT_EP_HANDLE other_handle, DAT_TIMEOUT timeout,
                          DAT_COUNT size, const DAT_PVOID data, DAT_QOS qos) noexcept {
    ep *const one = called_with<ep>(ep_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EP);
    address to;
    DAT_CONN_QUAL qualifier = 0;
    DAT_RETURN result = peer_of(*one->home, other_handle, to, qualifier);
    if (timeout == 0 && result != wrong_handle(DAT_INVALID_HANDLE_EP))
        return wrong_argument(3);
    if (result == DAT_SUCCESS)
        result = check_connect(*one, 4, size, data);
    if (result != DAT_SUCCESS)
        return result;
    if (qos != DAT_QOS_BEST_EFFORT)
        return failed(DAT_MODEL_NOT_SUPPORTED);
    return cm::connect(*one, to, qualifier, timeout, data, size);
}

} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The ends of a connection: by either program, by a fault, by time.

#include "../api.hpp"
#include "../clock.hpp"
#include "../evd.hpp"
#include "../settings.hpp"
#include "connection.hpp"
#include "extensions/ud.hpp"
#include "listener.hpp"

namespace coherdma::dapl::cm {

namespace {

constexpr std::int64_t millisecond = 1000000;
// For the peer's answer to our goodbye.
constexpr std::int64_t patience = 250 * millisecond;
// A request that was suppressed ends unseen, so after this long without any it is taken to have.
constexpr std::int64_t calm = 20 * millisecond;

bool stands(DAT_EP_STATE state) noexcept {
    return state == DAT_EP_STATE_CONNECTED || state == DAT_EP_STATE_DISCONNECT_PENDING;
}

bool is_over(DAT_EP_STATE state) noexcept {
    return state == DAT_EP_STATE_DISCONNECTED || state == DAT_EP_STATE_UNCONNECTED;
}

/// Its requests are flushed from now on.
void stop_pair(ep &one) noexcept {
    const holding requests(one.requests.guard), receives(one.receives.guard);
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_ERR;
    // Where the kernel makes connections (iWARP) it has done so, or will not be told.
    if (one.qp != nullptr)
        ibv_modify_qp(one.qp, &attr, IBV_QP_STATE);
}

bool tell_peer(ep &one) noexcept {
    const holding held(one.guard); // Who frees the endpoint cannot take the connection meanwhile.
    return one.link != nullptr && say_goodbye(*one.link);
}

void leave(ep &one) noexcept {
    // Before the answer can come, which ends the patience.
    events::at(one.when_late, deadline::now() + patience);
    if (!tell_peer(one))
        over(one, DAT_CONNECTION_EVENT_DISCONNECTED);
}

} // namespace

void over(ep &one, DAT_EVENT_NUMBER number) noexcept {
    {
        const holding held(one.guard);
        if (is_over(one.now()))
            return;
        one.open();
        one.state.store(DAT_EP_STATE_DISCONNECTED, std::memory_order_release);
    }
    events::drop(one.when_late);
    stop_pair(one);
    const bool with_data = number == DAT_CONNECTION_EVENT_PEER_REJECTED && one.link != nullptr;
    tell(one, number, with_data ? one.link : nullptr);
    one.no_more_receives();
}

namespace {

/// From now on it is nobody's.
connection *take_link(ep &one) noexcept {
    const holding held(one.guard);
    connection *const link = one.link;
    one.link = nullptr;
    if (link != nullptr)
        link->of.store(nullptr, std::memory_order_release);
    return link;
}

/// An attempt is. That is told first: siw's kernel destroys its id only when the peer has answered,
/// or his time is over.
void give_up(ep &one, DAT_EVENT_NUMBER number) noexcept {
    connection *const link = take_link(one);
    over(one, number);
    delete link;
}

} // namespace

void abandon(ep &one) noexcept {
    connection *const link = take_link(one);
    if (link == nullptr)
        return;
    if (stands(one.now()))
        say_goodbye(*link);
    part_with(link);
}

void broken(ep &one) noexcept {
    if (one.now() != DAT_EP_STATE_CONNECTED)
        return;
    over(one, DAT_CONNECTION_EVENT_BROKEN);
    tell_peer(one);
}

void late(ep &one) noexcept {
    if (one.now() == DAT_EP_STATE_ACTIVE_CONNECTION_PENDING)
        give_up(one, DAT_CONNECTION_EVENT_TIMED_OUT);
    else
        over(one, DAT_CONNECTION_EVENT_DISCONNECTED);
}

void drained(ep &one) noexcept {
    if (one.now() != DAT_EP_STATE_DISCONNECT_PENDING)
        return;
    if (one.request_evd != nullptr) {
        const holding held(one.request_evd->guard);
        one.request_evd->gather();
    }
    const std::uint32_t left = one.requests.outstanding();
    if (left == 0 || left == one.drained)
        return leave(one);
    one.drained = left;
    events::at(one.when_drained, deadline::now() + calm);
}

void traffic_seen(ep &one) noexcept {
    const holding held(one.guard);
    if (one.link != nullptr && one.now() == DAT_EP_STATE_COMPLETION_PENDING)
        rdma_notify(one.link->id, IBV_EVENT_COMM_EST);
}

namespace {

DAT_RETURN disconnect(ep &one, DAT_CLOSE_FLAGS flags) noexcept {
    DAT_EP_STATE state;
    {
        const holding held(one.guard);
        state = one.now();
        switch (state) {
        case DAT_EP_STATE_DISCONNECTED:
            return DAT_SUCCESS;
        case DAT_EP_STATE_DISCONNECT_PENDING:
            if (flags != DAT_CLOSE_ABRUPT_FLAG)
                return wrong_argument(2);
            break;
        case DAT_EP_STATE_CONNECTED:
            one.drained = one.requests.outstanding() + 1;
            one.state.store(DAT_EP_STATE_DISCONNECT_PENDING, std::memory_order_release);
            break;
        case DAT_EP_STATE_ACTIVE_CONNECTION_PENDING:
        case DAT_EP_STATE_COMPLETION_PENDING:
            break;
        default:
            return wrong_state(subtype_of(state));
        }
    }
    if (state == DAT_EP_STATE_DISCONNECT_PENDING) {
        if (events::drop(one.when_drained)) // No more patience with its requests.
            leave(one);
    } else if (state != DAT_EP_STATE_CONNECTED) {
        give_up(one, DAT_CONNECTION_EVENT_DISCONNECTED);
    } else if (flags == DAT_CLOSE_GRACEFUL_FLAG) {
        drained(one);
    } else {
        leave(one);
    }
    return DAT_SUCCESS;
}

} // namespace
} // namespace coherdma::dapl::cm

namespace coherdma::dapl {

DAT_RETURN ep_disconnect(DAT_EP_HANDLE ep_handle, DAT_CLOSE_FLAGS flags) noexcept {
    ep *const one = called_with<ep>(ep_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EP);
    if (flags != DAT_CLOSE_ABRUPT_FLAG && flags != DAT_CLOSE_GRACEFUL_FLAG)
        return wrong_argument(2);
    if (extensions::is_datagram(one->attr))
        return DAT_SUCCESS;
    return cm::disconnect(*one, flags);
}

} // namespace coherdma::dapl

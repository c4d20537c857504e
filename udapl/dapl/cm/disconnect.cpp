// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Ends of a connection: by either consumer, an error or a timeout.

#include "connection.hpp"
#include "dapl/api.hpp"
#include "dapl/core/deadline.hpp"
#include "dapl/core/settings.hpp"
#include "dapl/ep/ended_attempt.hpp"
#include "dapl/event/evd.hpp"
#include "listener.hpp"

#include <utility>

namespace coherdma::dapl::cm {

namespace {

constexpr std::int64_t ns_per_ms = 1000000;
// How long to wait for the peer's DREP.
constexpr std::int64_t disconnect_timeout_ns = 250 * ns_per_ms;
// Unsignaled requests produce no CQE: if the number outstanding has not changed for this long, the
// SQ counts as drained.
constexpr std::int64_t drain_poll_interval_ns = 20 * ns_per_ms;

bool is_connected(DAT_EP_STATE state) noexcept {
    return state == DAT_EP_STATE_CONNECTED || state == DAT_EP_STATE_DISCONNECT_PENDING;
}

bool is_disconnected(DAT_EP_STATE state) noexcept {
    return state == DAT_EP_STATE_DISCONNECTED || state == DAT_EP_STATE_UNCONNECTED;
}

/// Moves the QP to ERR: its work requests are flushed.
void qp_to_err(dapl_ep &ep) noexcept {
    const std::lock_guard request_guard(ep.requests.lock), recv_guard(ep.receives.lock);
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_ERR;
    // For iWARP the kernel has already done so, or refuses the transition.
    if (ep.qp != nullptr)
        ibv_modify_qp(ep.qp, &attr, IBV_QP_STATE);
}

/// False: the EP has no connection, or rdma_disconnect failed.
bool disconnect_peer(dapl_ep &ep) noexcept {
    // Under the lock: ep_free cannot detach the connection meanwhile.
    const std::lock_guard guard(ep.lock);
    return ep.conn != nullptr && send_dreq(*ep.conn);
}

/// Sends the DREQ. The connection ends when the DREP arrives, or at the latest when timeout_task
/// runs.
void start_disconnect(dapl_ep &ep) noexcept {
    // Before the DREP can arrive, which cancels the timeout.
    event_thread::schedule(ep.timeout_task, dat_deadline::now_ns() + disconnect_timeout_ns);
    if (!disconnect_peer(ep))
        terminate_conn(ep, DAT_CONNECTION_EVENT_DISCONNECTED);
}

/// terminate_conn with the EP's lock held. The caller then calls report_last_wqe, without the lock.
void terminate_locked(dapl_ep &ep, DAT_EVENT_NUMBER number) noexcept {
    // Only a reject brings private data for the event.
    const connection *const rejected_conn =
        number == DAT_CONNECTION_EVENT_PEER_REJECTED ? ep.conn : nullptr;
    event_thread::unschedule(ep.timeout_task);
    qp_to_err(ep); // first: a QP in ERR flushes the requests that can be posted from now on
    ep.enable_requests();
    ep.state.store(DAT_EP_STATE_DISCONNECTED, std::memory_order_release);
    post_conn_event(ep, number, rejected_conn);
}

} // namespace

/// Moves the EP to DISCONNECTED and its QP to ERR, and posts the event; only once for a connection.
/// conn: nothing is done if it is not the EP's connection any more.
void terminate_conn(dapl_ep &ep, DAT_EVENT_NUMBER number, const connection *conn) noexcept {
    {
        const std::lock_guard guard(ep.lock);
        if (is_disconnected(ep.current_state()) || (conn != nullptr && ep.conn != conn))
            return;
        terminate_locked(ep, number);
    }
    ep.report_last_wqe();
}

namespace {

/// Detaches the connection: its events no longer reach the EP. The caller holds the EP's lock.
connection *detach_locked(dapl_ep &ep) noexcept {
    connection *const conn = std::exchange(ep.conn, nullptr);
    if (conn != nullptr)
        conn->ep.store(nullptr, std::memory_order_release);
    return conn;
}

/// Waits until no event of a connection that was detached is being handled for the EP, except one
/// that the caller is handling.
void wait_for_handlers(connection *conn) noexcept {
    event_thread::wait_for_callback(channel_watcher());
    if (conn != nullptr)
        event_thread::cancel(conn->call);
}

/// Whether the EP has an attempt whose destruction the kernel may block until the peer answers. A
/// call that is freeing or resetting the EP has detached it, though the state is still pending.
bool may_block(const dapl_ep &ep) noexcept {
    return ep.conn != nullptr && ep.ia->dev->iwarp &&
           ep.current_state() == DAT_EP_STATE_ACTIVE_CONNECTION_PENDING;
}

/// Ends a connection attempt with an event: dat_ep_disconnect, or a timeout. False: the EP is not
/// connecting any more, and nothing was done. On iWARP a thread of ended_attempt destroys it.
bool abort_attempt(dapl_ep &ep, DAT_EVENT_NUMBER number) noexcept {
    connection *conn;
    std::shared_ptr<ended_attempt> attempt;
    {
        const std::lock_guard guard(ep.lock);
        const DAT_EP_STATE state = ep.current_state();
        if (state != DAT_EP_STATE_ACTIVE_CONNECTION_PENDING &&
            state != DAT_EP_STATE_COMPLETION_PENDING)
            return false;
        // Before the event is posted: the consumer may then free the EP, which leaves its QP to the
        // ended attempt.
        if (may_block(ep))
            ep.attempt = attempt = ep.conn->ended;
        conn = detach_locked(ep);
        terminate_locked(ep, number);
    }
    ep.report_last_wqe();
    wait_for_handlers(conn);
    if (attempt)
        ended_attempt::start(attempt);
    else
        delete conn;
    return true;
}

} // namespace

/// Ends the EP's connection or attempt without an event, as the EP is freed or reset. Where
/// destroying an attempt blocks (iWARP), a thread of ended_attempt does it.
void abort_conn(dapl_ep &ep) noexcept {
    connection *conn;
    std::shared_ptr<ended_attempt> attempt;
    {
        const std::lock_guard guard(ep.lock);
        if (may_block(ep))
            ep.attempt = attempt = ep.conn->ended;
        conn = detach_locked(ep);
    }
    // Also without a connection: another thread may just have detached it.
    wait_for_handlers(conn);
    if (attempt) {
        ended_attempt::start(attempt);
    } else if (conn != nullptr) {
        if (is_connected(ep.current_state()))
            send_dreq(*conn);
        release_conn(conn);
    }
}

/// broken_task, in the event thread: a work request has failed.
void handle_broken(dapl_ep &ep) noexcept {
    if (ep.current_state() != DAT_EP_STATE_CONNECTED)
        return;
    terminate_conn(ep, DAT_CONNECTION_EVENT_BROKEN);
    disconnect_peer(ep);
}

/// timeout_task, in the event thread: connecting, or waiting for the DREP, took too long.
void handle_timeout(dapl_ep &ep) noexcept {
    if (ep.current_state() == DAT_EP_STATE_ACTIVE_CONNECTION_PENDING)
        abort_attempt(ep, DAT_CONNECTION_EVENT_TIMED_OUT);
    else
        terminate_conn(ep, DAT_CONNECTION_EVENT_DISCONNECTED);
}

/// A graceful disconnect, at first and as drain_task in the event thread: sends the DREQ once no
/// request is outstanding, or no more have completed since the last call.
void check_drained(dapl_ep &ep) noexcept {
    if (ep.current_state() != DAT_EP_STATE_DISCONNECT_PENDING)
        return;
    if (ep.request_evd != nullptr) {
        const std::lock_guard guard(ep.request_evd->lock);
        ep.request_evd->drain_cq();
    }
    const std::uint32_t outstanding = ep.requests.outstanding();
    if (outstanding == 0 || outstanding == ep.last_outstanding)
        return start_disconnect(ep);
    ep.last_outstanding = outstanding;
    event_thread::schedule(ep.drain_task, dat_deadline::now_ns() + drain_poll_interval_ns);
}

/// IBV_EVENT_COMM_EST: data arrived before the RTU. Has rdma_cm report the connection.
void handle_comm_est(dapl_ep &ep) noexcept {
    const std::lock_guard guard(ep.lock);
    if (ep.conn != nullptr && ep.current_state() == DAT_EP_STATE_COMPLETION_PENDING)
        rdma_notify(ep.conn->id, IBV_EVENT_COMM_EST);
}

namespace {

/// dat_ep_disconnect for a valid EP and flag, by the state of the EP.
DAT_RETURN disconnect(dapl_ep &ep, DAT_CLOSE_FLAGS flags) noexcept {
    DAT_EP_STATE state;
    {
        const std::lock_guard guard(ep.lock);
        state = ep.current_state();
        switch (state) {
        case DAT_EP_STATE_DISCONNECTED:
            return DAT_SUCCESS;
        case DAT_EP_STATE_DISCONNECT_PENDING:
            if (flags != DAT_CLOSE_ABRUPT_FLAG)
                return invalid_parameter(2);
            break;
        case DAT_EP_STATE_CONNECTED:
            // Differs from the number that check_drained finds at first.
            ep.last_outstanding = ep.requests.outstanding() + 1;
            ep.state.store(DAT_EP_STATE_DISCONNECT_PENDING, std::memory_order_release);
            break;
        case DAT_EP_STATE_ACTIVE_CONNECTION_PENDING:
        case DAT_EP_STATE_COMPLETION_PENDING:
            break;
        default:
            return invalid_state(state_subtype(state));
        }
    }
    if (state == DAT_EP_STATE_DISCONNECT_PENDING) {
        if (event_thread::cancel(ep.drain_task)) // abrupt: do not wait until the SQ drains
            start_disconnect(ep);
    } else if (state != DAT_EP_STATE_CONNECTED) {
        if (!abort_attempt(ep, DAT_CONNECTION_EVENT_DISCONNECTED))
            return disconnect(ep, flags); // established, or ended, meanwhile
    } else if (flags == DAT_CLOSE_GRACEFUL_FLAG) {
        check_drained(ep);
    } else {
        start_disconnect(ep);
    }
    return DAT_SUCCESS;
}

} // namespace
} // namespace coherdma::dapl::cm

namespace coherdma::dapl {

DAT_RETURN ep_disconnect(DAT_EP_HANDLE ep_handle, DAT_CLOSE_FLAGS flags) noexcept {
    const auto ep = handle_to<dapl_ep>(ep_handle);
    if (!ep)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    if (flags != DAT_CLOSE_ABRUPT_FLAG && flags != DAT_CLOSE_GRACEFUL_FLAG)
        return invalid_parameter(2);
    if (ep->is_ud)
        return DAT_SUCCESS;
    // For the counters. Set before the disconnection, whose event resets it when it is dequeued.
    const bool first_call =
        ep->counters != nullptr && !ep->counters->disconnect_called.exchange(true);
    const DAT_RETURN result = cm::disconnect(*ep, flags);
    if (first_call && result == DAT_SUCCESS) {
        ep->count(DCNT_EP_DISCONNECT);
        ep->ia->count(DCNT_IA_CM_DREQ_TX);
    } else if (first_call) {
        ep->counters->disconnect_called = false;
    }
    return result;
}

} // namespace coherdma::dapl

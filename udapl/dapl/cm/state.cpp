// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The states of a connection: what each event does in each state, and how a connection ends. The
// table is that of udapl/README.md.

#include "connection.hpp"
#include "dapl/core/deadline.hpp"
#include "dapl/ep/ended_attempt.hpp"
#include "dapl/ia/ia.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

namespace coherdma::dapl::cm {

namespace {

/// What an event does. The numbers of DAT events: the connection is established, or has ended.
enum class outcome : std::uint16_t {
    ignored,
    await_requests,    ///< until those of the EP have completed
    await_drep,        ///< sends the DREQ
    after_established, ///< the peer is connected: BROKEN follows once rdma_cm says that, too
    established = DAT_CONNECTION_EVENT_ESTABLISHED,
    peer_rejected = DAT_CONNECTION_EVENT_PEER_REJECTED,
    non_peer_rejected = DAT_CONNECTION_EVENT_NON_PEER_REJECTED,
    accept_completion_error = DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR,
    disconnected = DAT_CONNECTION_EVENT_DISCONNECTED,
    conn_broken = DAT_CONNECTION_EVENT_BROKEN,
    timed_out = DAT_CONNECTION_EVENT_TIMED_OUT,
    unreachable = DAT_CONNECTION_EVENT_UNREACHABLE,
};

constexpr auto num_states = static_cast<std::size_t>(conn_state::ended);
using enum outcome;

/// By conn_event and conn_state: connecting, accepting, connected, draining, disconnecting.
constexpr std::array<std::array<outcome, num_states>, 11> outcomes = {{
    /* established */ {established, established, ignored, ignored, ignored},
    /* rejected_by_consumer */
    {peer_rejected, accept_completion_error, conn_broken, disconnected, disconnected},
    /* rejected */
    {non_peer_rejected, accept_completion_error, conn_broken, disconnected, disconnected},
    /* unreachable */
    {unreachable, accept_completion_error, conn_broken, disconnected, disconnected},
    /* failed */ {conn_broken, accept_completion_error, conn_broken, disconnected, disconnected},
    /* qp_error */ {after_established, after_established, conn_broken, disconnected, disconnected},
    /* timed_out */ {timed_out, ignored, ignored, ignored, disconnected},
    /* abrupt_call */ {disconnected, disconnected, await_drep, await_drep, ignored},
    /* graceful_call */ {disconnected, disconnected, await_requests, ignored, ignored},
    /* drained */ {ignored, ignored, ignored, await_drep, ignored},
    /* peer_disconnected */
    {disconnected, disconnected, disconnected, disconnected, disconnected},
}};
static_assert(outcomes.size() == static_cast<std::size_t>(conn_event::peer_disconnected) + 1);

bool is_attempt(conn_state state) noexcept {
    return state == conn_state::connecting || state == conn_state::accepting;
}

/// This side ends the attempt.
bool gives_up(conn_event event) noexcept {
    return event == conn_event::timed_out || event == conn_event::abrupt_call ||
           event == conn_event::graceful_call;
}

bool needs_dreq(conn_state state) noexcept {
    return state == conn_state::connected || state == conn_state::draining;
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

void set_timer(connection &conn, std::int64_t wait_ns) noexcept {
    conn.deadline_ns = dat_deadline::now_ns() + wait_ns;
    event_thread::unschedule(conn);
    event_thread::schedule(conn, conn.deadline_ns);
}

void establish(dapl_ep &ep, connection &conn) noexcept {
    event_thread::unschedule(conn);
    conn.state = conn_state::connected;
    ep.enable_requests();
    ep.state.store(DAT_EP_STATE_CONNECTED, std::memory_order_release);
    post_conn_event(ep, DAT_CONNECTION_EVENT_ESTABLISHED, &conn);
}

/// number: of the event that tells the consumer.
void end(dapl_ep &ep, connection &conn, DAT_EVENT_NUMBER number) noexcept {
    event_thread::unschedule(conn);
    conn.state = conn_state::ended;
    qp_to_err(ep); // first: a QP in ERR flushes the requests that can be posted from now on
    ep.enable_requests();
    ep.state.store(DAT_EP_STATE_DISCONNECTED, std::memory_order_release);
    // Only a reject brings private data for the event.
    post_conn_event(ep, number, number == DAT_CONNECTION_EVENT_PEER_REJECTED ? &conn : nullptr);
    ep.report_last_wqe();
}

constexpr std::int64_t ack_timeout_unit_ns = 4096; // the specification's 4.096 us

/// How long a DREQ waits behind a NAK: the ACK time-out, but neither forever nor for minutes.
std::int64_t nak_time_ns(const connection &conn) noexcept {
    constexpr std::uint8_t max_ack_timeout = 17; // half a second
    return ack_timeout_unit_ns << (conn.ack_timeout == 0
                                       ? max_ack_timeout
                                       : std::min(conn.ack_timeout, max_ack_timeout));
}

/// Sends the DREQ. Until the DREP arrives the QP acknowledges what the peer sends: rxe delivers a
/// message before it acknowledges it. A peer that does not answer within the QP's ACK time-out
/// (DAPL_ACK_TIMER, or the route's) is not waited for; without one, rdma_cm gives up some time.
void start_disconnect(dapl_ep &ep, connection &conn) noexcept {
    conn.state = conn_state::disconnecting;
    ep.state.store(DAT_EP_STATE_DISCONNECT_PENDING, std::memory_order_release);
    event_thread::unschedule(conn);
    // The event thread may have taken the timer of draining, and wait for the EP's lock.
    conn.deadline_ns = std::numeric_limits<std::int64_t>::max();
    if (!send_dreq(conn))
        end(ep, conn, DAT_CONNECTION_EVENT_DISCONNECTED);
    else if (conn.ack_timeout != 0)
        set_timer(conn, ack_timeout_unit_ns << conn.ack_timeout);
}

void start_draining(dapl_ep &ep, connection &conn) noexcept {
    conn.state = conn_state::draining;
    ep.state.store(DAT_EP_STATE_DISCONNECT_PENDING, std::memory_order_release);
    set_timer(conn, 0);
}

/// Whether the kernel may block the destruction of the attempt until the peer answers.
bool may_block(const dapl_ep &ep) noexcept {
    return ep.ia->dev->iwarp && ep.conn->state == conn_state::connecting;
}

} // namespace

detached_conn detach(dapl_ep &ep) noexcept {
    detached_conn detached;
    if (ep.conn == nullptr)
        return detached;
    // The consumer may free the EP at once, which leaves its QP to the ended attempt.
    if (may_block(ep))
        ep.attempt = detached.attempt = ep.conn->ended;
    detached.conn = std::exchange(ep.conn, nullptr);
    detached.conn->ep.store(nullptr, std::memory_order_release);
    return detached;
}

void detached_conn::wait_for_handlers() const noexcept {
    event_thread::wait_for_callback(channel_watcher());
    if (conn == nullptr)
        return;
    event_thread::cancel(conn->call);
    event_thread::cancel(*conn);
}

void detached_conn::destroy() const noexcept {
    if (attempt)
        ended_attempt::start(attempt);
    else
        delete conn;
}

detached_conn step_locked(dapl_ep &ep, connection &conn, conn_event event) noexcept {
    // First: a connection that is not the EP's may have been deleted.
    if (ep.conn != &conn || conn.state == conn_state::ended)
        return {};
    const conn_state state = conn.state;
    const outcome next = outcomes[static_cast<std::size_t>(event)][static_cast<std::size_t>(state)];
    switch (next) {
    case ignored:
        return {};
    case await_requests:
        start_draining(ep, conn);
        return {};
    case await_drep:
        start_disconnect(ep, conn);
        return {};
    case after_established:
        conn.qp_in_error = true;
        return {};
    case established:
        establish(ep, conn);
        return conn.qp_in_error ? step_locked(ep, conn, conn_event::qp_error) : detached_conn{};
    default:
        break;
    }
    // An attempt that this side gives up is destroyed, which tells the peer.
    detached_conn detached;
    if (is_attempt(state) && gives_up(event))
        detached = detach(ep);
    // A QP that fails as responder has sent a NAK, which a DREQ might overtake: the peer's
    // request would be flushed, instead of failing by it. Then the peer disconnects.
    const bool owes_dreq = needs_dreq(state) && event != conn_event::peer_disconnected;
    conn.dreq_pending = owes_dreq && event == conn_event::qp_error && !ep.request_failed &&
                        !ep.ia->dev->iwarp; // which has no DREQ
    if (owes_dreq && !conn.dreq_pending)
        send_dreq(conn);
    end(ep, conn, static_cast<DAT_EVENT_NUMBER>(next));
    if (conn.dreq_pending)
        set_timer(conn, nak_time_ns(conn));
    return detached;
}

void step(dapl_ep &ep, connection &conn, conn_event event) noexcept {
    const std::lock_guard guard(ep.lock);
    step_locked(ep, conn, event);
}

/// timer_task, in the event thread: a timeout, the next look at the requests of a graceful
/// disconnect, or the end of a connection that was kept without an EP.
void connection::run() noexcept {
    dapl_ep *const owner = ep.load(std::memory_order_acquire);
    if (owner == nullptr)
        return delete_after_drep(*this);
    detached_conn detached;
    {
        const std::lock_guard guard(owner->lock);
        // The timer may have been set again, or the EP left, after the event thread had taken it.
        if (dat_deadline::now_ns() < deadline_ns || owner->conn != this)
            return;
        if (std::exchange(dreq_pending, false))
            send_dreq(*this);
        else if (state != conn_state::draining)
            detached = step_locked(*owner, *this, conn_event::timed_out);
        else if (drain_requests(*owner))
            step_locked(*owner, *this, conn_event::drained);
        else
            set_timer(*this, drain_interval_ns);
    }
    if (detached.conn != nullptr)
        detached.destroy();
}

} // namespace coherdma::dapl::cm

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What ends a connection on this side: dat_ep_disconnect, an error of the QP, or the end of the EP.

#include "connection.hpp"
#include "dapl/api.hpp"

namespace coherdma::dapl::cm {

/// Ends the EP's connection or attempt without an event, as the EP is freed or reset.
void abort_conn(dapl_ep &ep) noexcept {
    detached_conn detached;
    bool needs_dreq = false;
    {
        const std::lock_guard guard(ep.lock);
        needs_dreq = ep.conn != nullptr && (ep.conn->state == conn_state::connected ||
                                            ep.conn->state == conn_state::draining);
        detached = detach(ep);
    }
    // Also without a connection: another thread may just have detached it.
    detached.wait_for_handlers();
    if (needs_dreq)
        send_dreq(*detached.conn);
    if (detached.conn != nullptr && !detached.attempt)
        release_conn(detached.conn);
    else
        detached.destroy();
}

/// broken_task, in the event thread: a work request has failed.
void handle_broken(dapl_ep &ep) noexcept {
    const std::lock_guard guard(ep.lock);
    if (ep.conn != nullptr)
        step_locked(ep, *ep.conn, conn_event::qp_error); // detaches nothing
}

/// IBV_EVENT_COMM_EST: data arrived before the RTU. Has rdma_cm report the connection.
void handle_comm_est(dapl_ep &ep) noexcept {
    const std::lock_guard guard(ep.lock);
    if (ep.conn != nullptr && ep.conn->state == conn_state::accepting)
        rdma_notify(ep.conn->id, IBV_EVENT_COMM_EST);
}

namespace {

/// dat_ep_disconnect for a valid EP and flag, by the state of the EP.
DAT_RETURN disconnect(dapl_ep &ep, DAT_CLOSE_FLAGS flags) noexcept {
    const bool is_graceful = flags == DAT_CLOSE_GRACEFUL_FLAG;
    detached_conn detached;
    {
        const std::lock_guard guard(ep.lock);
        const DAT_EP_STATE state = ep.current_state();
        if (state == DAT_EP_STATE_DISCONNECTED)
            return DAT_SUCCESS;
        if (ep.conn == nullptr)
            return invalid_state(state_subtype(state));
        if (is_graceful && state == DAT_EP_STATE_DISCONNECT_PENDING)
            return invalid_parameter(2);
        detached = step_locked(ep, *ep.conn,
                               is_graceful ? conn_event::graceful_call : conn_event::abrupt_call);
    }
    if (detached.conn == nullptr)
        return DAT_SUCCESS;
    detached.wait_for_handlers();
    detached.destroy();
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
    return cm::disconnect(*ep, flags);
}

} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Counts an event when the consumer dequeues it.

#include "dapl/event/upcalls.hpp"
#include "dapl/ia/ia.hpp"
#include "ep.hpp"

#include <dat2/dat_ib_extensions.h>

namespace coherdma::dapl {

namespace {

/// Counts a Receive that succeeded; other DTOs were counted when they were posted.
void count_receive(counter_set &counters, const DAT_DTO_COMPLETION_EVENT_DATA &data) noexcept {
    switch (static_cast<int>(data.operation)) {
    case DAT_DTO_RECEIVE:
    case DAT_DTO_RECEIVE_WITH_INVALIDATE:
        return counters.add_with_bytes(DCNT_EP_RECV, data.transfered_length);
    case DAT_IB_DTO_RECV_UD:
        return counters.add_with_bytes(DCNT_EP_RECV_UD, data.transfered_length);
    case DAT_IB_DTO_RECV_MSG_IMMED:
        return counters.add_with_bytes(DCNT_EP_RECV_IMM, data.transfered_length);
    case DAT_IB_DTO_RECV_IMMED:
        return counters.add_with_bytes(DCNT_EP_RECV_RDMA_IMM, data.transfered_length);
    default:
        return;
    }
}

/// The EP was connected: this side sent the request (dat_ep_connect), or the reply.
void count_established(dapl_ia &ia, counter_set &ep_counters) noexcept {
    if (ep_counters.connect_called.exchange(false)) {
        ia.count(DCNT_IA_CM_REP_RX);
        ia.count(DCNT_IA_CM_RTU_TX);
        ia.count(DCNT_IA_CM_ACTIVE_EST);
    } else {
        ia.count(DCNT_IA_CM_RTU_RX);
        ia.count(DCNT_IA_CM_PASSIVE_EST);
    }
}

/// The consumer dequeues a completion or connection event of an EP that has counters.
void count_ep_event(dapl_ep &ep, const DAT_EVENT &event) noexcept {
    dapl_ia &ia = *ep.ia;
    switch (static_cast<unsigned>(event.event_number)) {
    case DAT_DTO_COMPLETION_EVENT:
    case DAT_IB_DTO_EVENT:
        if (event.event_data.dto_completion_event_data.status == DAT_DTO_SUCCESS)
            count_receive(*ep.counters, event.event_data.dto_completion_event_data);
        return;
    case DAT_CONNECTION_EVENT_ESTABLISHED:
        return count_established(ia, *ep.counters);
    case DAT_CONNECTION_EVENT_DISCONNECTED:
        return ia.count(ep.counters->disconnect_called.exchange(false) ? DCNT_IA_CM_DREP_RX
                                                                       : DCNT_IA_CM_DREQ_RX);
    case DAT_CONNECTION_EVENT_PEER_REJECTED:
        return ia.count(DCNT_IA_CM_USER_REJ_RX);
    case DAT_CONNECTION_EVENT_NON_PEER_REJECTED:
        return ia.count(DCNT_IA_CM_ERR_REFUSED);
    case DAT_CONNECTION_EVENT_BROKEN:
        return ia.count(DCNT_IA_CM_ERR_RESET);
    default:
        return ia.count(DCNT_IA_CM_ERR_TIMEOUT);
    }
}

void count_async_event(dapl_ia &ia, DAT_EVENT_NUMBER number) noexcept {
    ia.count(DCNT_IA_ASYNC_ERROR);
    if (number == DAT_ASYNC_ERROR_EP_BROKEN)
        ia.count(DCNT_IA_ASYNC_QP_ERROR);
    if (number == DAT_ASYNC_ERROR_EVD_OVERFLOW)
        ia.count(DCNT_IA_ASYNC_CQ_ERROR);
}

/// The EP of a completion or connection event, if it has counters and has not been freed.
call_ref<dapl_ep> get_counted_ep(const DAT_EVENT &event) noexcept {
    const unsigned number = event.event_number;
    const bool is_completion = number == DAT_DTO_COMPLETION_EVENT || number == DAT_IB_DTO_EVENT;
    if (!is_completion &&
        (number < DAT_CONNECTION_EVENT_ESTABLISHED || number > DAT_CONNECTION_EVENT_UNREACHABLE))
        return {};
    auto ep = lookup<dapl_ep>(is_completion ? event.event_data.dto_completion_event_data.ep_handle
                                            : event.event_data.connect_event_data.ep_handle);
    if (ep && ep->counters == nullptr)
        ep.reset();
    return ep;
}

} // namespace

/// Counts an event of the EVD that the consumer dequeues, with COHERDMA_COUNTERS=1.
void count_event(dapl_evd &evd, const DAT_EVENT &event) noexcept {
    if (const auto ep = get_counted_ep(event)) {
        count_ep_event(*ep, event);
    } else if (event.event_number == DAT_CONNECTION_REQUEST_EVENT) {
        evd.ia->count(DCNT_IA_SP_CR);
        evd.ia->count(DCNT_IA_CM_REQ_RX);
    } else if (event.event_number >= DAT_ASYNC_ERROR_EVD_OVERFLOW &&
               event.event_number <= DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR) {
        count_async_event(*evd.ia, event.event_number);
    }
}

} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "watermark.hpp"

#include "dapl/event/upcalls.hpp"
#include "dapl/ia/ia.hpp"
#include "ep.hpp"

namespace coherdma::dapl {

namespace {

/// The EP of a receive from an SRQ; empty for other events.
call_ref<dapl_ep> get_srq_ep(const DAT_EVENT &event) noexcept {
    if (event.event_number != DAT_DTO_COMPLETION_EVENT)
        return {};
    const DAT_DTO_COMPLETION_EVENT_DATA &data = event.event_data.dto_completion_event_data;
    if (data.operation != DAT_DTO_RECEIVE && data.operation != DAT_DTO_RECEIVE_WITH_INVALIDATE)
        return {};
    // The EP may have been freed.
    auto ep = lookup<dapl_ep>(data.ep_handle);
    if (ep && !ep->has_srq)
        ep.reset();
    return ep;
}

bool exceeds(DAT_COUNT count, DAT_COUNT watermark) noexcept {
    return watermark != DAT_WATERMARK_INFINITE && count > watermark;
}

} // namespace

/// Compares the receives of an SRQ that wait in the EVD's queue with the watermarks of the EP: the
/// soft one posts an asynchronous event, the hard one ends the connection.
void check_watermarks(dapl_ep &ep) noexcept {
    const DAT_COUNT count = ep.srq_undequeued.load(std::memory_order_relaxed);
    DAT_COUNT soft = ep.soft_watermark.load(std::memory_order_relaxed);
    // Reported once per dat_ep_set_watermark.
    if (exceeds(count, soft) &&
        ep.soft_watermark.compare_exchange_strong(soft, DAT_WATERMARK_INFINITE))
        post_async_event(*ep.ia, DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR, &ep,
                         DAT_SRQ_SOFT_HIGH_WATERMARK_EVENT);
    if (exceeds(count, ep.hard_watermark.load(std::memory_order_relaxed)) &&
        ep.current_state() == DAT_EP_STATE_CONNECTED)
        ep.schedule_broken();
}

/// An event enters an EVD's queue. Called with the EVD's lock.
void srq_recv_enqueued(const DAT_EVENT &event) noexcept {
    if (const auto ep = get_srq_ep(event)) {
        ep->srq_undequeued.fetch_add(1, std::memory_order_relaxed);
        check_watermarks(*ep);
    }
}

/// The consumer dequeues an event. Called with the EVD's lock.
void srq_recv_dequeued(const DAT_EVENT &event) noexcept {
    if (const auto ep = get_srq_ep(event))
        ep->srq_undequeued.fetch_sub(1, std::memory_order_relaxed);
}

} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "watermark.hpp"

#include "async.hpp"
#include "ep.hpp"
#include "ia.hpp"

namespace coherdma::dapl {

namespace {

/// The endpoint, if it is a receive from an SRQ.
ep *who_shares(const DAT_EVENT &event) noexcept {
    if (event.event_number != DAT_DTO_COMPLETION_EVENT)
        return nullptr;
    const DAT_DTO_COMPLETION_EVENT_DATA &data = event.event_data.dto_completion_event_data;
    if (data.operation != DAT_DTO_RECEIVE && data.operation != DAT_DTO_RECEIVE_WITH_INVALIDATE)
        return nullptr;
    // It may have been freed since.
    ep *const one = as<ep>(data.ep_handle);
    return one != nullptr && one->shares ? one : nullptr;
}

bool above(DAT_COUNT held, DAT_COUNT mark) noexcept {
    return mark != DAT_WATERMARK_INFINITE && held > mark;
}

} // namespace

void compare_with_marks(ep &one) noexcept {
    const DAT_COUNT held = one.untaken.load(std::memory_order_relaxed);
    DAT_COUNT soft = one.soft_watermark.load(std::memory_order_relaxed);
    // Told once, until it is set again.
    if (above(held, soft) &&
        one.soft_watermark.compare_exchange_strong(soft, DAT_WATERMARK_INFINITE))
        report(*one.home, DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR, &one,
               DAT_SRQ_SOFT_HIGH_WATERMARK_EVENT);
    if (above(held, one.hard_watermark.load(std::memory_order_relaxed)))
        one.broken();
}

void came(const DAT_EVENT &event) noexcept {
    if (ep *const one = who_shares(event)) {
        one->untaken.fetch_add(1, std::memory_order_relaxed);
        compare_with_marks(*one);
    }
}

void went(const DAT_EVENT &event) noexcept {
    if (ep *const one = who_shares(event))
        one->untaken.fetch_sub(1, std::memory_order_relaxed);
}

} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datping/events.hpp"
#include "dat/words.hpp"

namespace tools::datping {
namespace {

std::optional<DAT_EVENT> waited(DAT_EVD_HANDLE evd, std::chrono::microseconds time) {
    DAT_EVENT event = {};
    DAT_COUNT more = 0;
    const DAT_RETURN got =
        dat_evd_wait(evd, static_cast<DAT_TIMEOUT>(time.count()), 1, &event, &more);
    switch (DAT_GET_TYPE(got)) {
    case DAT_SUCCESS:
        return event;
    case DAT_TIMEOUT_EXPIRED:
    case DAT_QUEUE_EMPTY:
    case DAT_INTERRUPTED_CALL: // a signal: the caller looks whether it was a wish to stop
        return {};
    default:
        throw dat::error("waiting for an event failed", got, {});
    }
}

} // namespace

std::optional<DAT_EVENT> event_now(DAT_EVD_HANDLE evd) {
    DAT_EVENT event = {};
    const DAT_RETURN got = dat_evd_dequeue(evd, &event);
    if (got == DAT_SUCCESS)
        return event;
    if (DAT_GET_TYPE(got) != DAT_QUEUE_EMPTY)
        throw dat::error("looking for an event failed", got, {});
    return {};
}

std::optional<DAT_EVENT> event_within(DAT_EVD_HANDLE evd, std::chrono::microseconds time, how by) {
    if (by == how::WAIT)
        return waited(evd, time);
    const auto until = clock::now() + time;
    do {
        for (int again = 0; again < 64; ++again)
            if (const auto event = event_now(evd))
                return event;
    } while (clock::now() < until);
    return {};
}

} // namespace tools::datping

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datping/events.hpp"
#include "dat_common/to_string.hpp"

namespace tools::datping {
namespace {

std::optional<DAT_EVENT> wait_event(DAT_EVD_HANDLE evd, std::chrono::microseconds timeout) {
    DAT_EVENT event = {};
    DAT_COUNT num_pending = 0;
    const DAT_RETURN ret =
        dat_evd_wait(evd, static_cast<DAT_TIMEOUT>(timeout.count()), 1, &event, &num_pending);
    switch (DAT_GET_TYPE(ret)) {
    case DAT_SUCCESS:
        return event;
    case DAT_TIMEOUT_EXPIRED:
    case DAT_QUEUE_EMPTY:
    case DAT_INTERRUPTED_CALL: // a signal: the caller checks is_interrupted()
        return {};
    default:
        throw dat::error("dat_evd_wait failed", ret, {});
    }
}

} // namespace

std::optional<DAT_EVENT> poll_event(DAT_EVD_HANDLE evd) {
    DAT_EVENT event = {};
    const DAT_RETURN ret = dat_evd_dequeue(evd, &event);
    if (ret == DAT_SUCCESS)
        return event;
    if (DAT_GET_TYPE(ret) != DAT_QUEUE_EMPTY)
        throw dat::error("dat_evd_dequeue failed", ret, {});
    return {};
}

std::optional<DAT_EVENT> wait_event_for(DAT_EVD_HANDLE evd, std::chrono::microseconds timeout,
                                        wait_mode mode) {
    if (mode == wait_mode::WAIT)
        return wait_event(evd, timeout);
    const auto deadline = clock::now() + timeout;
    do { // reads the clock after 64 polls only
        for (int i = 0; i < 64; ++i)
            if (const auto event = poll_event(evd))
                return event;
    } while (clock::now() < deadline);
    return {};
}

} // namespace tools::datping

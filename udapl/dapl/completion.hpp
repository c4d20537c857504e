// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// From a completion of verbs to an event.
#pragma once

#include "ep.hpp"
#include "evd.hpp"

#include <cstdint>

namespace coherdma::dapl {

// Of the completion that the EVD has found, and with the EVD's lock:

/// If it is a plain one, ends its record and makes its event. False: nothing was done.
[[gnu::always_inline]] inline bool tell(evd &on, DAT_EVENT &event) noexcept {
    constexpr unsigned more = IBV_WC_WITH_IMM | IBV_WC_WITH_INV;
    if (on.found.status != IBV_WC_SUCCESS || on.found.wr_id == 0) [[unlikely]]
        return false;
    auto &one = *reinterpret_cast<record *>(on.found.wr_id);
    auto &data = event.event_data.dto_completion_event_data;
    if (one.told.operation < DAT_DTO_RECEIVE) [[likely]] {
        ring &in = one.pair()->requests;
        const std::uint64_t number = in.awaited(one);
        if (number == 0) [[unlikely]]
            return false;
        data = one.told;
        in.completed(one, number);
    } else {
        if (one.told.operation != DAT_DTO_RECEIVE || one.pair() == nullptr ||
            (on.found.wc_flags & more) != 0) [[unlikely]]
            return false;
        ring &in = one.pair()->receives;
        const std::uint64_t number = in.awaited(one);
        if (number == 0) [[unlikely]]
            return false;
        data = one.told;
        data.transfered_length = on.found.byte_len;
        in.completed(one, number);
    }
    event.event_number = DAT_DTO_COMPLETION_EVENT;
    event.evd_handle = &on;
    return true;
}

/// The same for any: one that failed, came from an SRQ, has more to tell than DAT 2.0 has words
/// for, or that the device should not have told of. False: nobody is to hear of it.
bool tell_more(evd &on, DAT_EVENT &event) noexcept;

/// The next completion. False: there is none.
bool next_completion(evd &on, DAT_EVENT &event) noexcept;

DAT_DTO_COMPLETION_STATUS status_of(ibv_wc_status status) noexcept;

} // namespace coherdma::dapl

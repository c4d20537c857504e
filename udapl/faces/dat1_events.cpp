// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Events: taken by 2.0's functions, and told member by member of the kind that they are.

#include "dapl/api.hpp"
#include "dat1_calls.hpp"

#include <dat2/dat_ib_extensions.h>

namespace coherdma::dapl::dat1 {

namespace {

void put(dto_completion_event_data &to, const DAT_DTO_COMPLETION_EVENT_DATA &from) noexcept {
    to.ep_handle = from.ep_handle;
    to.user_cookie = from.user_cookie;
    to.status = from.status;
    to.transfered_length = from.transfered_length;
}

void put(cr_arrival_event_data &to, const DAT_CR_ARRIVAL_EVENT_DATA &from) noexcept {
    to.sp_handle = from.sp_handle;
    to.local_ia_address_ptr = from.local_ia_address_ptr;
    to.conn_qual = from.conn_qual;
    to.cr_handle = from.cr_handle;
}

/// All but completions.
[[gnu::noinline]] void put_other(event &to, const DAT_EVENT &from) noexcept {
    const auto number = static_cast<DAT_UINT32>(from.event_number);
    if (number == DAT_RMR_BIND_COMPLETION_EVENT) {
        to.event_data.rmr_completion_event_data = from.event_data.rmr_completion_event_data;
    } else if (number == DAT_CONNECTION_REQUEST_EVENT) {
        put(to.event_data.cr_arrival_event_data, from.event_data.cr_arrival_event_data);
    } else if (number >= DAT_CONNECTION_EVENT_ESTABLISHED &&
               number < DAT_ASYNC_ERROR_EVD_OVERFLOW) {
        to.event_data.connect_event_data = from.event_data.connect_event_data;
    } else if (number == DAT_SOFTWARE_EVENT) {
        to.event_data.software_event_data = from.event_data.software_event_data;
    } else if (number == DAT_IB_DTO_EVENT) {
        // A peer of 2.0 sent a word with it. The receive is done all the same, and of such is all
        // that 1.2 has words for.
        to.event_number = DAT_DTO_COMPLETION_EVENT;
        put(to.event_data.dto_completion_event_data, from.event_data.dto_completion_event_data);
    } else {
        to.event_data.asynch_error_event_data = from.event_data.asynch_error_event_data;
    }
}

[[gnu::always_inline]] inline void put(event &to, const DAT_EVENT &from) noexcept {
    to.event_number = from.event_number;
    to.evd_handle = from.evd_handle;
    if (from.event_number == DAT_DTO_COMPLETION_EVENT) [[likely]]
        put(to.event_data.dto_completion_event_data, from.event_data.dto_completion_event_data);
    else
        put_other(to, from);
}

} // namespace

DAT_RETURN evd_wait(DAT_EVD_HANDLE evd_handle, DAT_TIMEOUT timeout, DAT_COUNT threshold, event *to,
                    DAT_COUNT *more) noexcept {
    return asked<DAT_EVENT>(to, put, [&](DAT_EVENT *next) {
        return dapl::evd_wait(evd_handle, timeout, threshold, next, more);
    });
}

// No stack protector: the event is written member by member.
__attribute__((no_stack_protector)) DAT_RETURN evd_dequeue(DAT_EVD_HANDLE evd_handle,
                                                           event *to) noexcept {
    return asked<DAT_EVENT>(to, put,
                            [&](DAT_EVENT *next) { return dapl::evd_dequeue(evd_handle, next); });
}

DAT_RETURN evd_post_se(DAT_EVD_HANDLE evd_handle, const event *from) noexcept {
    DAT_EVENT all = {};
    if (from != nullptr) {
        all.event_number = from->event_number;
        all.event_data.software_event_data = from->event_data.software_event_data;
    }
    return told_any(dapl::evd_post_se(evd_handle, from != nullptr ? &all : nullptr));
}

} // namespace coherdma::dapl::dat1

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Events: dequeued by the functions of 2.0 and converted.

#include "dapl/api.hpp"
#include "dat1_calls.hpp"

#include <dat2/dat_ib_extensions.h>

namespace coherdma::dapl::dat1 {

namespace {

void to_dat1(dto_completion_event_data &dst, const DAT_DTO_COMPLETION_EVENT_DATA &src) noexcept {
    dst.ep_handle = src.ep_handle;
    dst.user_cookie = src.user_cookie;
    dst.status = src.status;
    dst.transfered_length = src.transfered_length;
}

void to_dat1(cr_arrival_event_data &dst, const DAT_CR_ARRIVAL_EVENT_DATA &src) noexcept {
    dst.sp_handle = src.sp_handle;
    dst.local_ia_address_ptr = src.local_ia_address_ptr;
    dst.conn_qual = src.conn_qual;
    dst.cr_handle = src.cr_handle;
}

/// Converts the data of every event but DAT_DTO_COMPLETION_EVENT.
[[gnu::noinline]] void to_dat1_except_dto(event &dst, const DAT_EVENT &src) noexcept {
    const auto number = static_cast<DAT_UINT32>(src.event_number);
    if (number == DAT_RMR_BIND_COMPLETION_EVENT) {
        dst.event_data.rmr_completion_event_data = src.event_data.rmr_completion_event_data;
    } else if (number == DAT_CONNECTION_REQUEST_EVENT) {
        to_dat1(dst.event_data.cr_arrival_event_data, src.event_data.cr_arrival_event_data);
    } else if (number >= DAT_CONNECTION_EVENT_ESTABLISHED &&
               number < DAT_ASYNC_ERROR_EVD_OVERFLOW) {
        dst.event_data.connect_event_data = src.event_data.connect_event_data;
    } else if (number == DAT_SOFTWARE_EVENT) {
        dst.event_data.software_event_data = src.event_data.software_event_data;
    } else if (number == DAT_IB_DTO_EVENT) {
        // The peer used DAT 2.0 and sent immediate data, which 1.2 cannot report. The Receive has
        // completed.
        dst.event_number = DAT_DTO_COMPLETION_EVENT;
        to_dat1(dst.event_data.dto_completion_event_data, src.event_data.dto_completion_event_data);
    } else {
        dst.event_data.asynch_error_event_data = src.event_data.asynch_error_event_data;
    }
}

[[gnu::always_inline]] inline void to_dat1(event &dst, const DAT_EVENT &src) noexcept {
    dst.event_number = src.event_number;
    dst.evd_handle = src.evd_handle;
    if (src.event_number == DAT_DTO_COMPLETION_EVENT) [[likely]]
        to_dat1(dst.event_data.dto_completion_event_data, src.event_data.dto_completion_event_data);
    else
        to_dat1_except_dto(dst, src);
}

} // namespace

DAT_RETURN evd_wait(DAT_EVD_HANDLE evd_handle, DAT_TIMEOUT timeout, DAT_COUNT threshold,
                    event *event_out, DAT_COUNT *num_more) {
    return query_convert<DAT_EVENT>(event_out, to_dat1, [&](DAT_EVENT *dat2_event) {
        return dapl::evd_wait(evd_handle, timeout, threshold, dat2_event, num_more);
    });
}

DAT_RETURN cno_wait(DAT_CNO_HANDLE cno_handle, DAT_TIMEOUT timeout, DAT_EVD_HANDLE *evd_handle) {
    return to_dat1_result(dapl::cno_wait(cno_handle, timeout, evd_handle));
}

// No stack protector: the event is stored member by member.
__attribute__((no_stack_protector)) DAT_RETURN evd_dequeue(DAT_EVD_HANDLE evd_handle,
                                                           event *event_out) noexcept {
    return query_convert<DAT_EVENT>(event_out, to_dat1, [&](DAT_EVENT *dat2_event) {
        return dapl::evd_dequeue(evd_handle, dat2_event);
    });
}

/// dat_evd_post_se of DAT 1.2: passes the event to the call of 2.0.
DAT_RETURN evd_post_se(DAT_EVD_HANDLE evd_handle, const event *software_event) noexcept {
    DAT_EVENT dat2_event = {};
    if (software_event != nullptr) {
        dat2_event.event_number = software_event->event_number;
        dat2_event.event_data.software_event_data = software_event->event_data.software_event_data;
    }
    return to_dat1_result(
        dapl::evd_post_se(evd_handle, software_event != nullptr ? &dat2_event : nullptr));
}

} // namespace coherdma::dapl::dat1

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Two connected EPs, each with memory.
#pragma once

#include "consumer.hpp"

#include <cstdint>

namespace fake {

struct connected_eps {
    explicit connected_eps(const char *name = "roce", const DAT_EP_ATTR *attr = nullptr)
        : ia(name)
        , active(ia, attr)
        , passive(ia, attr)
        , active_memory(ia)
        , passive_memory(ia) {
        connect(active, passive);
    }
    ~connected_eps() {
        if (ia.handle != DAT_HANDLE_NULL && active.state() == DAT_EP_STATE_CONNECTED)
            disconnect(active, passive);
    }

    /// The active EP sends the beginning of its memory.
    DAT_RETURN post_send(DAT_SEG_LENGTH length, DAT_DTO_COOKIE user_cookie,
                         DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG) const {
        DAT_LMR_TRIPLET iov = active_memory.lmr_triplet(0, length);
        return dat().ep_post_send_func(active.handle, 1, &iov, user_cookie, flags);
    }
    /// The passive EP receives to the beginning of its memory.
    DAT_RETURN post_recv(DAT_SEG_LENGTH length, DAT_DTO_COOKIE user_cookie) const {
        DAT_LMR_TRIPLET iov = passive_memory.lmr_triplet(0, length);
        return dat().ep_post_recv_func(passive.handle, 1, &iov, user_cookie,
                                       DAT_COMPLETION_DEFAULT_FLAG);
    }

    ia_fixture ia;
    ep_fixture active, passive;
    memory active_memory, passive_memory;
};

/// Waits for the next event, which must be this completion of a DTO.
inline DAT_DTO_COMPLETION_EVENT_DATA assert_completion(DAT_EVD_HANDLE evd,
                                                       DAT_DTO_COOKIE user_cookie,
                                                       DAT_DTO_COMPLETION_STATUS status,
                                                       DAT_VLEN length = 0) {
    const DAT_EVENT event = wait_event(evd, DAT_DTO_COMPLETION_EVENT);
    const auto &data = event.event_data.dto_completion_event_data;
    assert_int_equal(data.user_cookie.as_64, user_cookie.as_64);
    assert_int_equal(data.status, status);
    assert_int_equal(data.transfered_length, length);
    return data;
}

} // namespace fake

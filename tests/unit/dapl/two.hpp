// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Two endpoints that are connected, with memory each.
#pragma once

#include "consumer.hpp"

#include <cstdint>

namespace played {

inline void done(DAT_RETURN result) {
    assert_int_equal(result, DAT_SUCCESS);
}

/// Everything was freed but the IA and its PZ: nothing else is left.
inline void close(adapter &on) {
    done(dat().pz_free_func(on.pz));
    on.close(DAT_CLOSE_GRACEFUL_FLAG);
}

struct two_ends {
    explicit two_ends(const char *name = "ib", const DAT_EP_ATTR *attr = nullptr)
        : on(name)
        , one(on, attr)
        , other(on, attr)
        , here(on)
        , there(on) {
        connect(one, other);
    }
    void free() {
        if (one.state() == DAT_EP_STATE_CONNECTED)
            disconnect(one, other);
        one.free();
        other.free();
        here.free();
        there.free();
        close(on);
    }

    DAT_RETURN send(DAT_SEG_LENGTH length, std::uint64_t word,
                    DAT_COMPLETION_FLAGS flags = DAT_COMPLETION_DEFAULT_FLAG) const {
        DAT_LMR_TRIPLET part = here.part(0, length);
        return dat().ep_post_send_func(one.ep, 1, &part, cookie(word), flags);
    }
    DAT_RETURN receive(DAT_SEG_LENGTH length, std::uint64_t word) const {
        DAT_LMR_TRIPLET part = there.part(0, length);
        return dat().ep_post_recv_func(other.ep, 1, &part, cookie(word),
                                       DAT_COMPLETION_DEFAULT_FLAG);
    }

    adapter on;
    end one, other;
    memory here, there;
};

/// The next completion must be this.
inline DAT_DTO_COMPLETION_EVENT_DATA completed(DAT_EVD_HANDLE evd, std::uint64_t word,
                                               DAT_DTO_COMPLETION_STATUS status,
                                               DAT_VLEN length = 0) {
    const DAT_EVENT event = next(evd, DAT_DTO_COMPLETION_EVENT);
    const auto &data = event.event_data.dto_completion_event_data;
    assert_int_equal(data.user_cookie.as_64, word);
    assert_int_equal(data.status, status);
    assert_int_equal(data.transfered_length, length);
    return data;
}

} // namespace played

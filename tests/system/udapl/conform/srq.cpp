// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Shared receive queues.

#include "cases.hpp"
#include "endpoint.hpp"

#include <cstring>

namespace conform {

namespace {

constexpr DAT_COUNT dtos = 16;

DAT_RETURN post(DAT_SRQ_HANDLE to, DAT_LMR_TRIPLET piece, DAT_UINT64 cookie) {
    return dat_srq_post_recv(to, 1, &piece, context(cookie));
}
DAT_SRQ_PARAM queried(DAT_SRQ_HANDLE one) {
    filled<DAT_SRQ_PARAM> is_now;
    done(dat_srq_query(one, DAT_SRQ_FIELD_ALL, is_now.out()));
    return is_now.in();
}

/// A pair of which the passive side takes from the queue.
struct place {
    couple pair;
    srq queue = make({dtos, 2, DAT_SRQ_LW_DEFAULT});

    srq make(DAT_SRQ_ATTR size, spot at = here()) const {
        DAT_SRQ_HANDLE made = nullptr;
        done(dat_srq_create(pair.ia, pair.zone, &size, &made), at);
        return srq(made, at);
    }
    endpoint taker() const { return endpoint(pair.ia, pair.zone, queue); }
    ~place() {
        // The queue is freed before the pair, so the pair must not use it any more.
        pair.passive = endpoint(pair.ia, pair.zone);
    }
    void refuses(DAT_SRQ_ATTR size, std::initializer_list<DAT_RETURN> with,
                 spot at = here()) const {
        DAT_SRQ_HANDLE made = nullptr;
        const DAT_RETURN got = dat_srq_create(pair.ia, pair.zone, &size, &made);
        is(got, with, at);
        if (got == DAT_SUCCESS)
            dat_srq_free(made);
    }
};

void making(case_list &cases) {
    add_case(cases, "srq.create_wrong", [] {
        const place here_is;
        here_is.refuses({0, 1, 0}, {bad_argument(3)});
        here_is.refuses({-1, 1, 0}, {bad_argument(3)});
        here_is.refuses({8, -1, 0}, {bad_argument(3)});
        here_is.refuses({8, 1, -7}, {bad_argument(3)});
        here_is.refuses({8, 1, 9}, {bad_argument(3)});
    });
    add_case(cases, "srq.create_too_large", [] {
        const place here_is;
        const DAT_IA_ATTR &most = here_is.pair.ia.attributes();
        here_is.refuses({most.max_recv_per_srq + 1, 1, 0},
                        {bad_argument(3), too_few(DAT_RESOURCE_SRQ)});
        here_is.refuses({8, most.max_iov_segments_per_dto + 1, 0},
                        {bad_argument(3), too_few(DAT_RESOURCE_SRQ)});
    });
    add_case(cases, "srq.create_null", [] {
        const place here_is;
        DAT_SRQ_ATTR size{8, 1, 0};
        DAT_SRQ_HANDLE made = nullptr;
        is(dat_srq_create(here_is.pair.ia, here_is.pair.zone, nullptr, &made), bad_argument(3));
        is(dat_srq_create(here_is.pair.ia, here_is.pair.zone, &size, nullptr), bad_argument(4));
    });
    add_case(cases, "srq.attributes", [] { // of the IA and the provider tell of them
        const place here_is;               // which has one
        same(here_is.pair.ia.provider().srq_supported, DAT_TRUE, "srq_supported");
        const DAT_IA_ATTR &is = here_is.pair.ia.attributes();
        yes(is.max_srqs >= 1, "max_srqs is 0");
        yes(is.max_ep_per_srq >= 1, "max_ep_per_srq is 0");
        yes(is.max_recv_per_srq >= dtos, "max_recv_per_srq is less than it took");
    });
    add_case(cases, "srq.query", [] {
        const place here_is;
        const DAT_SRQ_PARAM is_now = queried(here_is.queue);
        same(is_now.ia_handle, here_is.pair.ia, "ia_handle");
        same(is_now.srq_state, DAT_SRQ_STATE_OPERATIONAL, "srq_state");
        same(is_now.pz_handle, here_is.pair.zone, "pz_handle");
        yes(is_now.max_recv_dtos >= dtos, "max_recv_dtos");
        yes(is_now.max_recv_iov >= 2, "max_recv_iov");
        same(is_now.low_watermark, DAT_SRQ_LW_DEFAULT, "low_watermark");
        same(is_now.outstanding_dto_count, 0, "outstanding_dto_count");
    });
    add_case(cases, "srq.query_mask_unknown", [] {
        const place here_is;
        DAT_SRQ_PARAM is_now{};
        is(dat_srq_query(here_is.queue, no_such<DAT_SRQ_PARAM_MASK>(0x100), &is_now),
           bad_argument(2));
    });
    add_case(cases, "srq.query_null", [] {
        const place here_is;
        is(dat_srq_query(here_is.queue, DAT_SRQ_FIELD_ALL, nullptr), bad_argument(3));
    });
    add_case(cases, "srq.free_under_ep", [] {
        const place here_is;
        const endpoint one = here_is.taker();
        is(dat_srq_free(here_is.queue), bad_state(DAT_INVALID_STATE_SRQ_IN_USE));
        same(queried(here_is.queue).srq_state, DAT_SRQ_STATE_OPERATIONAL, "srq_state");
    });
    add_case(cases, "srq.free_with_receives", [] {
        place here_is;
        for (DAT_UINT64 i = 0; i < 4; ++i)
            done(post(here_is.queue, here_is.pair.memory.piece(0, 8), i));
        is(here_is.queue.free(), DAT_SUCCESS);
    });
}

void posting(case_list &cases) {
    add_case(cases, "srq.post_wrong", [] {
        const place here_is;
        DAT_LMR_TRIPLET iov[64];
        for (DAT_LMR_TRIPLET &each : iov)
            each = here_is.pair.memory.piece(0, 8);
        is(dat_srq_post_recv(here_is.queue, -1, iov, context(1)), bad_argument(2));
        is(dat_srq_post_recv(here_is.queue, 64, iov, context(1)), bad_argument(2));
        is(dat_srq_post_recv(here_is.queue, 1, nullptr, context(1)), bad_argument(3));
        same(queried(here_is.queue).outstanding_dto_count, 0, "outstanding_dto_count");
    });
    add_case(cases, "srq.post_counted", [] {
        const place here_is;
        for (DAT_UINT64 i = 0; i < 5; ++i)
            done(post(here_is.queue, here_is.pair.memory.piece(0, 8), i));
        const DAT_SRQ_PARAM is_now = queried(here_is.queue);
        same(is_now.outstanding_dto_count, 5, "outstanding_dto_count");
        yes(is_now.available_dto_count == DAT_VALUE_UNKNOWN ||
                is_now.available_dto_count == is_now.max_recv_dtos - 5 ||
                is_now.available_dto_count == 5,
            text("available_dto_count is ", is_now.available_dto_count));
    });
    add_case(cases, "srq.post_full", [] {
        const place here_is;
        DAT_UINT64 posted = 0;
        DAT_RETURN got = DAT_SUCCESS;
        for (; got == DAT_SUCCESS && posted < 5000; ++posted)
            got = post(here_is.queue, here_is.pair.memory.piece(0, 8), posted);
        yes(posted > dtos, text(posted, " were taken, not ", dtos));
        is(got, too_few(DAT_RESOURCE_MEMORY));
    });
    add_case(cases, "srq.ep", [] { // has no receives of its own
        const place here_is;
        const endpoint one = here_is.taker();
        DAT_EP_PARAM is_now{};
        done(dat_ep_query(one, DAT_EP_FIELD_ALL, &is_now));
        same(is_now.srq_handle, here_is.queue, "srq_handle");
        is(post_receive(one, here_is.pair.memory.piece(0, 8), 1),
           bad_state(DAT_INVALID_STATE_SRQ_IN_USE));
    });
    add_case(cases, "srq.ep_wrong", [] {
        const place here_is;
        const couple &pair = here_is.pair;
        DAT_EP_HANDLE made = nullptr;
        for (const DAT_HANDLE wrong : {DAT_HANDLE(nullptr), DAT_HANDLE(pair.zone)})
            is(dat_ep_create_with_srq(pair.ia, pair.zone, pair.passive.received,
                                      pair.passive.requested, pair.passive.connection, wrong,
                                      nullptr, &made),
               bad_handle(DAT_INVALID_HANDLE_SRQ));
        is(dat_ep_create_with_srq(pair.ia, pair.zone, pair.passive.received, pair.passive.requested,
                                  pair.passive.connection, here_is.queue, nullptr, nullptr),
           bad_argument(8));
    });
}

/// A message to one of two endpoints takes the queue's next receive, and its event names the EP.
void two_takers() {
    place here_is;
    couple &pair = here_is.pair;
    pair.passive = here_is.taker();
    const endpoint second_caller(pair.ia, pair.zone), second = here_is.taker();
    for (DAT_UINT64 i = 0; i < dtos; ++i)
        done(post(here_is.queue, pair.memory.piece(page * (4 + i), 100), i));
    pair.join_silently();
    done(connect(second_caller, destination(pair.ia.address()), pair.port));
    done(dat_cr_accept(pair.request(), second, 0, nullptr));
    next_event(second_caller.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
    next_event(second.connection, DAT_CONNECTION_EVENT_ESTABLISHED);
    DAT_UINT64 next = 0;
    for (std::size_t round = 0; round < 5; ++round) {
        const std::pair<const endpoint *, const endpoint *> both[] = {{&pair.active, &pair.passive},
                                                                      {&second_caller, &second}};
        for (const auto &[from, at] : both) {
            const std::size_t length = 40 + round;
            const auto data = some_bytes(length, static_cast<unsigned>(next));
            std::memcpy(pair.memory.data(), data.data(), length);
            done(post_send(*from, pair.memory.piece(0, length), next));
            completed(at->received, *at, next, length);
            completed(from->requested, *from, next, length);
            yes(std::memcmp(pair.memory.data() + page * (4 + next), data.data(), length) == 0,
                "the data is not what was sent");
            ++next;
        }
    }
    same(queried(here_is.queue).outstanding_dto_count, static_cast<DAT_COUNT>(dtos - next),
         "outstanding_dto_count");
}

void connected(case_list &cases) {
    add_case(cases, "srq.two_takers", two_takers);
    add_case(cases, "srq.ep_broken_once", [] { // after its end: dtestsrq waits for it
        place here_is;
        couple &pair = here_is.pair;
        pair.passive = here_is.taker();
        done(post(here_is.queue, pair.memory.piece(page, 8), 1));
        pair.join_silently();
        pair.part();
        const DAT_EVENT told = next_event(pair.ia.async(), DAT_ASYNC_ERROR_EP_BROKEN);
        same(told.event_data.asynch_error_event_data.dat_handle, pair.passive,
             "the EP that is broken");
        no_event(pair.ia.async(), milliseconds(100));
    });
    add_case(cases, "srq.receives_outlive_ep", [] { // the next one has them
        place here_is;
        couple &pair = here_is.pair;
        done(post(here_is.queue, pair.memory.piece(page, 8), 11));
        done(post(here_is.queue, pair.memory.piece(page, 8), 12));
        for (DAT_UINT64 cookie : {11U, 12U}) {
            pair.passive = here_is.taker();
            pair.join_silently();
            done(post_send(pair.active, pair.memory.piece(0, 8), 1));
            completed(pair.passive.received, pair.passive, cookie, 8);
            completed(pair.active.requested, pair.active, 1, 8);
            pair.part();
            no_event(pair.passive.received);
            done(dat_ep_reset(pair.active));
        }
    });
}

void resizing(case_list &cases) {
    add_case(cases, "srq.resize_larger", [] {
        const place here_is;
        const DAT_RETURN got = dat_srq_resize(here_is.queue, 200);
        // A device need not be able to, but then says so.
        if (got == not_supported || got == error(DAT_NOT_IMPLEMENTED)) {
            yes(here_is.pair.ia.is_iwarp(), "it is not supported");
            return;
        }
        done(got);
        yes(queried(here_is.queue).max_recv_dtos >= 200, "max_recv_dtos is as before");
        for (DAT_UINT64 i = 0; i < 200; ++i)
            done(post(here_is.queue, here_is.pair.memory.piece(0, 8), i));
    });
    add_case(cases, "srq.resize_with_receives", [] {
        place here_is;
        couple &pair = here_is.pair;
        pair.passive = here_is.taker();
        for (DAT_UINT64 i = 0; i < 6; ++i)
            done(post(here_is.queue, pair.memory.piece(page, 8), i));
        if (dat_srq_resize(here_is.queue, 100) != DAT_SUCCESS)
            return; // srq.resize_larger says whether that is right
        for (DAT_UINT64 i = 6; i < 20; ++i)
            done(post(here_is.queue, pair.memory.piece(page, 8), i));
        pair.join_silently();
        for (DAT_UINT64 i = 0; i < 20; ++i) {
            done(post_send(pair.active, pair.memory.piece(0, 8), i));
            completed(pair.passive.received, pair.passive, i, 8);
            completed(pair.active.requested, pair.active, i, 8);
        }
    });
    add_case(cases, "srq.resize_wrong", [] {
        const place here_is;
        is(dat_srq_resize(here_is.queue, 0), bad_argument(2));
        is(dat_srq_resize(here_is.queue, -3), bad_argument(2));
        is(dat_srq_resize(here_is.queue, here_is.pair.ia.attributes().max_recv_per_srq + 1),
           bad_argument(2));
    });
    add_case(cases, "srq.resize_too_small", [] { // for what is there
        const place here_is;
        for (DAT_UINT64 i = 0; i < dtos; ++i)
            done(post(here_is.queue, here_is.pair.memory.piece(0, 8), i));
        const DAT_RETURN got = dat_srq_resize(here_is.queue, 2);
        yes(DAT_GET_TYPE(got) == DAT_INVALID_STATE && (got & DAT_CLASS_ERROR),
            "returned " + name_of(got) + ", not INVALID_STATE");
        same(queried(here_is.queue).outstanding_dto_count, dtos, "outstanding_dto_count");
    });
}

bool has_watermarks(const adapter &ia) {
    return ia.provider().srq_watermarks_supported != 0;
}

void watermarks(case_list &cases) {
    add_case(cases, "srq.low_watermark", [] {
        place here_is;
        couple &pair = here_is.pair;
        pair.passive = here_is.taker();
        for (DAT_UINT64 i = 0; i < 6; ++i)
            done(post(here_is.queue, pair.memory.piece(page, 8), i));
        const DAT_RETURN got = dat_srq_set_lw(here_is.queue, 3);
        if (!has_watermarks(pair.ia)) {
            is(got, {not_supported, error(DAT_NOT_IMPLEMENTED)});
            return;
        }
        done(got);
        same(queried(here_is.queue).low_watermark, 3, "low_watermark");
        pair.join_silently();
        no_event(pair.ia.async());
        for (DAT_UINT64 i = 0; i < 4; ++i) {
            done(post_send(pair.active, pair.memory.piece(0, 8), i));
            completed(pair.passive.received, pair.passive, i, 8);
            completed(pair.active.requested, pair.active, i, 8);
        }
        const DAT_EVENT told = next_event(pair.ia.async());
        const auto &event = told.event_data.asynch_error_event_data;
        same(event.dat_handle, here_is.queue, "what it is about");
        same(event.reason, DAT_SRQ_LOW_WATERMARK_EVENT, "the reason");
        no_event(pair.ia.async());
    });
    add_case(cases, "srq.low_watermark_wrong", [] {
        const place here_is;
        for (const DAT_COUNT wrong : {-1, 5000}) {
            const DAT_RETURN got = dat_srq_set_lw(here_is.queue, wrong);
            if (has_watermarks(here_is.pair.ia))
                is(got, bad_argument(2));
            else
                is(got, {not_supported, error(DAT_NOT_IMPLEMENTED), bad_argument(2)});
        }
    });
}

} // namespace

void add_srq(case_list &cases) {
    making(cases);
    posting(cases);
    connected(cases);
    resizing(cases);
    watermarks(cases);
}

} // namespace conform

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
    return dat_srq_post_recv(to, 1, &piece, make_context(cookie));
}
DAT_SRQ_PARAM queried(DAT_SRQ_HANDLE one) {
    filled<DAT_SRQ_PARAM> is_now;
    require_success(dat_srq_query(one, DAT_SRQ_FIELD_ALL, is_now.out()));
    return is_now.in();
}

/// A pair of which the passive side takes from the queue.
struct place {
    couple pair;
    unique_srq queue = make({dtos, 2, DAT_SRQ_LW_DEFAULT});

    unique_srq make(DAT_SRQ_ATTR size, source_location loc = current_location()) const {
        DAT_SRQ_HANDLE made = nullptr;
        require_success(dat_srq_create(pair.ia, pair.zone, &size, &made), loc);
        return unique_srq(made, loc);
    }
    endpoint taker() const { return endpoint(pair.ia, pair.zone, queue); }
    ~place() {
        // The queue is freed before the pair, so the pair must not use it any more.
        pair.passive = endpoint(pair.ia, pair.zone);
    }
    void refuses(DAT_SRQ_ATTR size, std::initializer_list<DAT_RETURN> with,
                 source_location loc = current_location()) const {
        DAT_SRQ_HANDLE made = nullptr;
        const DAT_RETURN got = dat_srq_create(pair.ia, pair.zone, &size, &made);
        expect_return(got, with, loc);
        if (got == DAT_SUCCESS)
            dat_srq_free(made);
    }
};

void making(case_list &cases) {
    add_case(cases, "srq.create_wrong", [] {
        const place here_is;
        here_is.refuses({0, 1, 0}, {invalid_parameter(3)});
        here_is.refuses({-1, 1, 0}, {invalid_parameter(3)});
        here_is.refuses({8, -1, 0}, {invalid_parameter(3)});
        here_is.refuses({8, 1, -7}, {invalid_parameter(3)});
        here_is.refuses({8, 1, 9}, {invalid_parameter(3)});
    });
    add_case(cases, "srq.create_too_large", [] {
        const place here_is;
        const DAT_IA_ATTR &most = here_is.pair.ia.attributes();
        here_is.refuses({most.max_recv_per_srq + 1, 1, 0},
                        {invalid_parameter(3), insufficient_resources(DAT_RESOURCE_SRQ)});
        here_is.refuses({8, most.max_iov_segments_per_dto + 1, 0},
                        {invalid_parameter(3), insufficient_resources(DAT_RESOURCE_SRQ)});
    });
    add_case(cases, "srq.create_null", [] {
        const place here_is;
        DAT_SRQ_ATTR size{8, 1, 0};
        DAT_SRQ_HANDLE made = nullptr;
        expect_return(dat_srq_create(here_is.pair.ia, here_is.pair.zone, nullptr, &made),
                      invalid_parameter(3));
        expect_return(dat_srq_create(here_is.pair.ia, here_is.pair.zone, &size, nullptr),
                      invalid_parameter(4));
    });
    add_case(cases, "srq.attributes", [] { // of the IA and the provider tell of them
        const place here_is;               // which has one
        expect_eq(here_is.pair.ia.provider().srq_supported, DAT_TRUE, "srq_supported");
        const DAT_IA_ATTR &is = here_is.pair.ia.attributes();
        expect_true(is.max_srqs >= 1, "max_srqs is 0");
        expect_true(is.max_ep_per_srq >= 1, "max_ep_per_srq is 0");
        expect_true(is.max_recv_per_srq >= dtos, "max_recv_per_srq is less than it took");
    });
    add_case(cases, "srq.query", [] {
        const place here_is;
        const DAT_SRQ_PARAM is_now = queried(here_is.queue);
        expect_eq(is_now.ia_handle, here_is.pair.ia, "ia_handle");
        expect_eq(is_now.srq_state, DAT_SRQ_STATE_OPERATIONAL, "srq_state");
        expect_eq(is_now.pz_handle, here_is.pair.zone, "pz_handle");
        expect_true(is_now.max_recv_dtos >= dtos, "max_recv_dtos");
        expect_true(is_now.max_recv_iov >= 2, "max_recv_iov");
        expect_eq(is_now.low_watermark, DAT_SRQ_LW_DEFAULT, "low_watermark");
        expect_eq(is_now.outstanding_dto_count, 0, "outstanding_dto_count");
    });
    add_case(cases, "srq.query_mask_unknown", [] {
        const place here_is;
        DAT_SRQ_PARAM is_now{};
        expect_return(dat_srq_query(here_is.queue, enum_cast<DAT_SRQ_PARAM_MASK>(0x100), &is_now),
                      invalid_parameter(2));
    });
    add_case(cases, "srq.query_null", [] {
        const place here_is;
        expect_return(dat_srq_query(here_is.queue, DAT_SRQ_FIELD_ALL, nullptr),
                      invalid_parameter(3));
    });
    add_case(cases, "srq.free_under_ep", [] {
        const place here_is;
        const endpoint one = here_is.taker();
        expect_return(dat_srq_free(here_is.queue), invalid_state(DAT_INVALID_STATE_SRQ_IN_USE));
        expect_eq(queried(here_is.queue).srq_state, DAT_SRQ_STATE_OPERATIONAL, "srq_state");
    });
    add_case(cases, "srq.free_with_receives", [] {
        place here_is;
        for (DAT_UINT64 i = 0; i < 4; ++i)
            require_success(post(here_is.queue, here_is.pair.memory.piece(0, 8), i));
        expect_return(here_is.queue.free(), DAT_SUCCESS);
    });
}

void posting(case_list &cases) {
    add_case(cases, "srq.post_wrong", [] {
        const place here_is;
        DAT_LMR_TRIPLET iov[64];
        for (DAT_LMR_TRIPLET &each : iov)
            each = here_is.pair.memory.piece(0, 8);
        expect_return(dat_srq_post_recv(here_is.queue, -1, iov, make_context(1)),
                      invalid_parameter(2));
        expect_return(dat_srq_post_recv(here_is.queue, 64, iov, make_context(1)),
                      invalid_parameter(2));
        expect_return(dat_srq_post_recv(here_is.queue, 1, nullptr, make_context(1)),
                      invalid_parameter(3));
        expect_eq(queried(here_is.queue).outstanding_dto_count, 0, "outstanding_dto_count");
    });
    add_case(cases, "srq.post_counted", [] {
        const place here_is;
        for (DAT_UINT64 i = 0; i < 5; ++i)
            require_success(post(here_is.queue, here_is.pair.memory.piece(0, 8), i));
        const DAT_SRQ_PARAM is_now = queried(here_is.queue);
        expect_eq(is_now.outstanding_dto_count, 5, "outstanding_dto_count");
        expect_true(is_now.available_dto_count == DAT_VALUE_UNKNOWN ||
                        is_now.available_dto_count == is_now.max_recv_dtos - 5 ||
                        is_now.available_dto_count == 5,
                    concat("available_dto_count is ", is_now.available_dto_count));
    });
    add_case(cases, "srq.post_full", [] {
        const place here_is;
        DAT_UINT64 posted = 0;
        DAT_RETURN got = DAT_SUCCESS;
        for (; got == DAT_SUCCESS && posted < 5000; ++posted)
            got = post(here_is.queue, here_is.pair.memory.piece(0, 8), posted);
        expect_true(posted > dtos, concat(posted, " were taken, not ", dtos));
        expect_return(got, insufficient_resources(DAT_RESOURCE_MEMORY));
    });
    add_case(cases, "srq.ep", [] { // has no receives of its own
        const place here_is;
        const endpoint one = here_is.taker();
        DAT_EP_PARAM is_now{};
        require_success(dat_ep_query(one, DAT_EP_FIELD_ALL, &is_now));
        expect_eq(is_now.srq_handle, here_is.queue, "srq_handle");
        expect_return(post_receive(one, here_is.pair.memory.piece(0, 8), 1),
                      invalid_state(DAT_INVALID_STATE_SRQ_IN_USE));
    });
    add_case(cases, "srq.ep_wrong", [] {
        const place here_is;
        const couple &pair = here_is.pair;
        DAT_EP_HANDLE made = nullptr;
        for (const DAT_HANDLE wrong : {DAT_HANDLE(nullptr), DAT_HANDLE(pair.zone)})
            expect_return(dat_ep_create_with_srq(pair.ia, pair.zone, pair.passive.received,
                                                 pair.passive.requested, pair.passive.connection,
                                                 wrong, nullptr, &made),
                          invalid_handle(DAT_INVALID_HANDLE_SRQ));
        expect_return(dat_ep_create_with_srq(pair.ia, pair.zone, pair.passive.received,
                                             pair.passive.requested, pair.passive.connection,
                                             here_is.queue, nullptr, nullptr),
                      invalid_parameter(8));
    });
}

/// A message to one of two endpoints takes the queue's next receive, and its event names the EP.
void two_takers() {
    place here_is;
    couple &pair = here_is.pair;
    pair.passive = here_is.taker();
    const endpoint second_caller(pair.ia, pair.zone), second = here_is.taker();
    for (DAT_UINT64 i = 0; i < dtos; ++i)
        require_success(post(here_is.queue, pair.memory.piece(page * (4 + i), 100), i));
    pair.join_silently();
    require_success(connect(second_caller, destination(pair.ia.address()), pair.port));
    require_success(dat_cr_accept(pair.request(), second, 0, nullptr));
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
            require_success(post_send(*from, pair.memory.piece(0, length), next));
            completed(at->received, *at, next, length);
            completed(from->requested, *from, next, length);
            expect_true(std::memcmp(pair.memory.data() + page * (4 + next), data.data(), length) ==
                            0,
                        "the data is not what was sent");
            ++next;
        }
    }
    expect_eq(queried(here_is.queue).outstanding_dto_count, static_cast<DAT_COUNT>(dtos - next),
              "outstanding_dto_count");
}

void connected(case_list &cases) {
    add_case(cases, "srq.two_takers", two_takers);
    add_case(cases, "srq.ep_broken_once", [] { // after its end: dtestsrq waits for it
        place here_is;
        couple &pair = here_is.pair;
        pair.passive = here_is.taker();
        require_success(post(here_is.queue, pair.memory.piece(page, 8), 1));
        pair.join_silently();
        pair.part();
        const DAT_EVENT told = next_event(pair.ia.async(), DAT_ASYNC_ERROR_EP_BROKEN);
        expect_eq(told.event_data.asynch_error_event_data.dat_handle, pair.passive,
                  "the EP that is broken");
        no_event(pair.ia.async(), milliseconds(100));
    });
    add_case(cases, "srq.receives_outlive_ep", [] { // the next one has them
        place here_is;
        couple &pair = here_is.pair;
        require_success(post(here_is.queue, pair.memory.piece(page, 8), 11));
        require_success(post(here_is.queue, pair.memory.piece(page, 8), 12));
        for (DAT_UINT64 cookie : {11U, 12U}) {
            pair.passive = here_is.taker();
            pair.join_silently();
            require_success(post_send(pair.active, pair.memory.piece(0, 8), 1));
            completed(pair.passive.received, pair.passive, cookie, 8);
            completed(pair.active.requested, pair.active, 1, 8);
            pair.part();
            no_event(pair.passive.received);
            require_success(dat_ep_reset(pair.active));
        }
    });
}

void resizing(case_list &cases) {
    add_case(cases, "srq.resize_larger", [] {
        const place here_is;
        const DAT_RETURN got = dat_srq_resize(here_is.queue, 200);
        // A device need not be able to, but then says so.
        if (got == not_supported || got == dat_error(DAT_NOT_IMPLEMENTED)) {
            expect_true(here_is.pair.ia.is_iwarp(), "it is not supported");
            return;
        }
        require_success(got);
        expect_true(queried(here_is.queue).max_recv_dtos >= 200, "max_recv_dtos is as before");
        for (DAT_UINT64 i = 0; i < 200; ++i)
            require_success(post(here_is.queue, here_is.pair.memory.piece(0, 8), i));
    });
    add_case(cases, "srq.resize_with_receives", [] {
        place here_is;
        couple &pair = here_is.pair;
        pair.passive = here_is.taker();
        for (DAT_UINT64 i = 0; i < 6; ++i)
            require_success(post(here_is.queue, pair.memory.piece(page, 8), i));
        if (dat_srq_resize(here_is.queue, 100) != DAT_SUCCESS)
            return; // srq.resize_larger says whether that is right
        for (DAT_UINT64 i = 6; i < 20; ++i)
            require_success(post(here_is.queue, pair.memory.piece(page, 8), i));
        pair.join_silently();
        for (DAT_UINT64 i = 0; i < 20; ++i) {
            require_success(post_send(pair.active, pair.memory.piece(0, 8), i));
            completed(pair.passive.received, pair.passive, i, 8);
            completed(pair.active.requested, pair.active, i, 8);
        }
    });
    add_case(cases, "srq.resize_wrong", [] {
        const place here_is;
        expect_return(dat_srq_resize(here_is.queue, 0), invalid_parameter(2));
        expect_return(dat_srq_resize(here_is.queue, -3), invalid_parameter(2));
        expect_return(
            dat_srq_resize(here_is.queue, here_is.pair.ia.attributes().max_recv_per_srq + 1),
            invalid_parameter(2));
    });
    add_case(cases, "srq.resize_too_small", [] { // for what is there
        const place here_is;
        for (DAT_UINT64 i = 0; i < dtos; ++i)
            require_success(post(here_is.queue, here_is.pair.memory.piece(0, 8), i));
        const DAT_RETURN got = dat_srq_resize(here_is.queue, 2);
        expect_true(DAT_GET_TYPE(got) == DAT_INVALID_STATE && (got & DAT_CLASS_ERROR),
                    "returned " + return_name(got) + ", not INVALID_STATE");
        expect_eq(queried(here_is.queue).outstanding_dto_count, dtos, "outstanding_dto_count");
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
            require_success(post(here_is.queue, pair.memory.piece(page, 8), i));
        const DAT_RETURN got = dat_srq_set_lw(here_is.queue, 3);
        if (!has_watermarks(pair.ia)) {
            expect_return(got, {not_supported, dat_error(DAT_NOT_IMPLEMENTED)});
            return;
        }
        require_success(got);
        expect_eq(queried(here_is.queue).low_watermark, 3, "low_watermark");
        pair.join_silently();
        no_event(pair.ia.async());
        for (DAT_UINT64 i = 0; i < 4; ++i) {
            require_success(post_send(pair.active, pair.memory.piece(0, 8), i));
            completed(pair.passive.received, pair.passive, i, 8);
            completed(pair.active.requested, pair.active, i, 8);
        }
        const DAT_EVENT told = next_event(pair.ia.async());
        const auto &event = told.event_data.asynch_error_event_data;
        expect_eq(event.dat_handle, here_is.queue, "what it is about");
        expect_eq(event.reason, DAT_SRQ_LOW_WATERMARK_EVENT, "the reason");
        no_event(pair.ia.async());
    });
    add_case(cases, "srq.low_watermark_wrong", [] {
        const place here_is;
        for (const DAT_COUNT wrong : {-1, 5000}) {
            const DAT_RETURN got = dat_srq_set_lw(here_is.queue, wrong);
            if (has_watermarks(here_is.pair.ia))
                expect_return(got, invalid_parameter(2));
            else
                expect_return(
                    got, {not_supported, dat_error(DAT_NOT_IMPLEMENTED), invalid_parameter(2)});
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

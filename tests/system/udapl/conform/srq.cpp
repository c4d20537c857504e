// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Shared receive queues.

#include "cases.hpp"
#include "test_ep.hpp"

#include <cstring>

namespace conform {

namespace {

constexpr DAT_COUNT dtos = 16;

DAT_RETURN post(DAT_SRQ_HANDLE to, DAT_LMR_TRIPLET piece, DAT_UINT64 cookie) {
    return dat_srq_post_recv(to, 1, &piece, make_context(cookie));
}
DAT_SRQ_PARAM queried(DAT_SRQ_HANDLE one) {
    poisoned<DAT_SRQ_PARAM> is_now;
    require_success(dat_srq_query(one, DAT_SRQ_FIELD_ALL, is_now.ptr()));
    return is_now.value();
}

/// A pair of which the passive side takes from the queue.
struct srq_fixture {
    ep_pair eps;
    unique_srq queue = make({dtos, 2, DAT_SRQ_LW_DEFAULT});

    unique_srq make(DAT_SRQ_ATTR size, source_location loc = current_location()) const {
        DAT_SRQ_HANDLE made = nullptr;
        require_success(dat_srq_create(eps.ia, eps.pz, &size, &made), loc);
        return unique_srq(made, loc);
    }
    test_ep taker() const { return test_ep(eps.ia, eps.pz, queue); }
    ~srq_fixture() {
        // The queue is freed before the pair, so the pair must not use it any more.
        eps.passive = test_ep(eps.ia, eps.pz);
    }
    void refuses(DAT_SRQ_ATTR size, std::initializer_list<DAT_RETURN> with,
                 source_location loc = current_location()) const {
        DAT_SRQ_HANDLE made = nullptr;
        const DAT_RETURN got = dat_srq_create(eps.ia, eps.pz, &size, &made);
        expect_return(got, with, loc);
        if (got == DAT_SUCCESS)
            dat_srq_free(made);
    }
};

void making(case_list &cases) {
    add_case(cases, "srq.create_wrong", [] {
        const srq_fixture fixture;
        fixture.refuses({0, 1, 0}, {invalid_parameter(3)});
        fixture.refuses({-1, 1, 0}, {invalid_parameter(3)});
        fixture.refuses({8, -1, 0}, {invalid_parameter(3)});
        fixture.refuses({8, 1, -7}, {invalid_parameter(3)});
        fixture.refuses({8, 1, 9}, {invalid_parameter(3)});
    });
    add_case(cases, "srq.create_too_large", [] {
        const srq_fixture fixture;
        const DAT_IA_ATTR &most = fixture.eps.ia.ia_attr();
        fixture.refuses({most.max_recv_per_srq + 1, 1, 0},
                        {invalid_parameter(3), insufficient_resources(DAT_RESOURCE_SRQ)});
        fixture.refuses({8, most.max_iov_segments_per_dto + 1, 0},
                        {invalid_parameter(3), insufficient_resources(DAT_RESOURCE_SRQ)});
    });
    add_case(cases, "srq.create_null", [] {
        const srq_fixture fixture;
        DAT_SRQ_ATTR size{8, 1, 0};
        DAT_SRQ_HANDLE made = nullptr;
        expect_return(dat_srq_create(fixture.eps.ia, fixture.eps.pz, nullptr, &made),
                      invalid_parameter(3));
        expect_return(dat_srq_create(fixture.eps.ia, fixture.eps.pz, &size, nullptr),
                      invalid_parameter(4));
    });
    add_case(cases, "srq.attributes", [] { // of the IA and the provider tell of them
        const srq_fixture fixture;         // which has one
        expect_eq(fixture.eps.ia.provider_attr().srq_supported, DAT_TRUE, "srq_supported");
        const DAT_IA_ATTR &is = fixture.eps.ia.ia_attr();
        expect_true(is.max_srqs >= 1, "max_srqs is 0");
        expect_true(is.max_ep_per_srq >= 1, "max_ep_per_srq is 0");
        expect_true(is.max_recv_per_srq >= dtos, "max_recv_per_srq is less than it took");
    });
    add_case(cases, "srq.query", [] {
        const srq_fixture fixture;
        const DAT_SRQ_PARAM is_now = queried(fixture.queue);
        expect_eq(is_now.ia_handle, fixture.eps.ia, "ia_handle");
        expect_eq(is_now.srq_state, DAT_SRQ_STATE_OPERATIONAL, "srq_state");
        expect_eq(is_now.pz_handle, fixture.eps.pz, "pz_handle");
        expect_true(is_now.max_recv_dtos >= dtos, "max_recv_dtos");
        expect_true(is_now.max_recv_iov >= 2, "max_recv_iov");
        expect_eq(is_now.low_watermark, DAT_SRQ_LW_DEFAULT, "low_watermark");
        expect_eq(is_now.outstanding_dto_count, 0, "outstanding_dto_count");
    });
    add_case(cases, "srq.query_mask_unknown", [] {
        const srq_fixture fixture;
        DAT_SRQ_PARAM is_now{};
        expect_return(dat_srq_query(fixture.queue, enum_cast<DAT_SRQ_PARAM_MASK>(0x100), &is_now),
                      invalid_parameter(2));
    });
    add_case(cases, "srq.query_null", [] {
        const srq_fixture fixture;
        expect_return(dat_srq_query(fixture.queue, DAT_SRQ_FIELD_ALL, nullptr),
                      invalid_parameter(3));
    });
    add_case(cases, "srq.free_under_ep", [] {
        const srq_fixture fixture;
        const test_ep one = fixture.taker();
        expect_return(dat_srq_free(fixture.queue), invalid_state(DAT_INVALID_STATE_SRQ_IN_USE));
        expect_eq(queried(fixture.queue).srq_state, DAT_SRQ_STATE_OPERATIONAL, "srq_state");
    });
    add_case(cases, "srq.free_with_receives", [] {
        srq_fixture fixture;
        for (DAT_UINT64 i = 0; i < 4; ++i)
            require_success(post(fixture.queue, fixture.eps.lmr.lmr_triplet(0, 8), i));
        expect_return(fixture.queue.free(), DAT_SUCCESS);
    });
}

void posting(case_list &cases) {
    add_case(cases, "srq.post_wrong", [] {
        const srq_fixture fixture;
        DAT_LMR_TRIPLET iov[64];
        for (DAT_LMR_TRIPLET &each : iov)
            each = fixture.eps.lmr.lmr_triplet(0, 8);
        expect_return(dat_srq_post_recv(fixture.queue, -1, iov, make_context(1)),
                      invalid_parameter(2));
        expect_return(dat_srq_post_recv(fixture.queue, 64, iov, make_context(1)),
                      invalid_parameter(2));
        expect_return(dat_srq_post_recv(fixture.queue, 1, nullptr, make_context(1)),
                      invalid_parameter(3));
        expect_eq(queried(fixture.queue).outstanding_dto_count, 0, "outstanding_dto_count");
    });
    add_case(cases, "srq.post_counted", [] {
        const srq_fixture fixture;
        for (DAT_UINT64 i = 0; i < 5; ++i)
            require_success(post(fixture.queue, fixture.eps.lmr.lmr_triplet(0, 8), i));
        const DAT_SRQ_PARAM is_now = queried(fixture.queue);
        expect_eq(is_now.outstanding_dto_count, 5, "outstanding_dto_count");
        expect_true(is_now.available_dto_count == DAT_VALUE_UNKNOWN ||
                        is_now.available_dto_count == is_now.max_recv_dtos - 5 ||
                        is_now.available_dto_count == 5,
                    concat("available_dto_count is ", is_now.available_dto_count));
    });
    add_case(cases, "srq.post_full", [] {
        const srq_fixture fixture;
        DAT_UINT64 posted = 0;
        DAT_RETURN got = DAT_SUCCESS;
        for (; got == DAT_SUCCESS && posted < 5000; ++posted)
            got = post(fixture.queue, fixture.eps.lmr.lmr_triplet(0, 8), posted);
        expect_true(posted > dtos, concat(posted, " were taken, not ", dtos));
        expect_return(got, insufficient_resources(DAT_RESOURCE_MEMORY));
    });
    add_case(cases, "srq.ep", [] { // has no receives of its own
        const srq_fixture fixture;
        const test_ep one = fixture.taker();
        DAT_EP_PARAM is_now{};
        require_success(dat_ep_query(one, DAT_EP_FIELD_ALL, &is_now));
        expect_eq(is_now.srq_handle, fixture.queue, "srq_handle");
        expect_return(post_recv(one, fixture.eps.lmr.lmr_triplet(0, 8), 1),
                      invalid_state(DAT_INVALID_STATE_SRQ_IN_USE));
    });
    add_case(cases, "srq.ep_wrong", [] {
        const srq_fixture fixture;
        const ep_pair &eps = fixture.eps;
        DAT_EP_HANDLE made = nullptr;
        for (const DAT_HANDLE wrong : {DAT_HANDLE(nullptr), DAT_HANDLE(eps.pz)})
            expect_return(dat_ep_create_with_srq(eps.ia, eps.pz, eps.passive.recv_evd,
                                                 eps.passive.request_evd, eps.passive.connect_evd,
                                                 wrong, nullptr, &made),
                          invalid_handle(DAT_INVALID_HANDLE_SRQ));
        expect_return(dat_ep_create_with_srq(eps.ia, eps.pz, eps.passive.recv_evd,
                                             eps.passive.request_evd, eps.passive.connect_evd,
                                             fixture.queue, nullptr, nullptr),
                      invalid_parameter(8));
    });
}

/// A message to one of two endpoints takes the queue's next receive, and its event names the EP.
void two_takers() {
    srq_fixture fixture;
    ep_pair &eps = fixture.eps;
    eps.passive = fixture.taker();
    const test_ep second_caller(eps.ia, eps.pz), second = fixture.taker();
    for (DAT_UINT64 i = 0; i < dtos; ++i)
        require_success(post(fixture.queue, eps.lmr.lmr_triplet(page * (4 + i), 100), i));
    eps.connect_without_messages();
    require_success(connect_ep(second_caller, ia_address(eps.ia.ipv4_address()), eps.port));
    require_success(dat_cr_accept(eps.next_cr(), second, 0, nullptr));
    next_event(second_caller.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    next_event(second.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    DAT_UINT64 next = 0;
    for (std::size_t round = 0; round < 5; ++round) {
        const std::pair<const test_ep *, const test_ep *> both[] = {{&eps.active, &eps.passive},
                                                                    {&second_caller, &second}};
        for (const auto &[from, at] : both) {
            const std::size_t length = 40 + round;
            const auto data = make_pattern(length, static_cast<unsigned>(next));
            std::memcpy(eps.lmr.data(), data.data(), length);
            require_success(post_send(*from, eps.lmr.lmr_triplet(0, length), next));
            expect_completion(at->recv_evd, *at, next, length);
            expect_completion(from->request_evd, *from, next, length);
            expect_true(std::memcmp(eps.lmr.data() + page * (4 + next), data.data(), length) == 0,
                        "the data is not what was sent");
            ++next;
        }
    }
    expect_eq(queried(fixture.queue).outstanding_dto_count, static_cast<DAT_COUNT>(dtos - next),
              "outstanding_dto_count");
}

void connected(case_list &cases) {
    add_case(cases, "srq.two_takers", two_takers);
    add_case(cases, "srq.ep_broken_once", [] { // after its end: dtestsrq waits for it
        srq_fixture fixture;
        ep_pair &eps = fixture.eps;
        eps.passive = fixture.taker();
        require_success(post(fixture.queue, eps.lmr.lmr_triplet(page, 8), 1));
        eps.connect_without_messages();
        eps.disconnect();
        const DAT_EVENT told = next_event(eps.ia.async_evd(), DAT_ASYNC_ERROR_EP_BROKEN);
        expect_eq(told.event_data.asynch_error_event_data.dat_handle, eps.passive,
                  "the EP that is broken");
        expect_no_event(eps.ia.async_evd(), milliseconds(100));
    });
    add_case(cases, "srq.receives_outlive_ep", [] { // the next one has them
        srq_fixture fixture;
        ep_pair &eps = fixture.eps;
        require_success(post(fixture.queue, eps.lmr.lmr_triplet(page, 8), 11));
        require_success(post(fixture.queue, eps.lmr.lmr_triplet(page, 8), 12));
        for (DAT_UINT64 cookie : {11U, 12U}) {
            eps.passive = fixture.taker();
            eps.connect_without_messages();
            require_success(post_send(eps.active, eps.lmr.lmr_triplet(0, 8), 1));
            expect_completion(eps.passive.recv_evd, eps.passive, cookie, 8);
            expect_completion(eps.active.request_evd, eps.active, 1, 8);
            eps.disconnect();
            expect_no_event(eps.passive.recv_evd);
            require_success(dat_ep_reset(eps.active));
        }
    });
}

void resizing(case_list &cases) {
    add_case(cases, "srq.resize_larger", [] {
        const srq_fixture fixture;
        const DAT_RETURN got = dat_srq_resize(fixture.queue, 200);
        // A device need not be able to, but then says so.
        if (got == not_supported || got == dat_error(DAT_NOT_IMPLEMENTED)) {
            expect_true(fixture.eps.ia.is_iwarp(), "it is not supported");
            return;
        }
        require_success(got);
        expect_true(queried(fixture.queue).max_recv_dtos >= 200, "max_recv_dtos is as before");
        for (DAT_UINT64 i = 0; i < 200; ++i)
            require_success(post(fixture.queue, fixture.eps.lmr.lmr_triplet(0, 8), i));
    });
    add_case(cases, "srq.resize_with_receives", [] {
        srq_fixture fixture;
        ep_pair &eps = fixture.eps;
        eps.passive = fixture.taker();
        for (DAT_UINT64 i = 0; i < 6; ++i)
            require_success(post(fixture.queue, eps.lmr.lmr_triplet(page, 8), i));
        if (dat_srq_resize(fixture.queue, 100) != DAT_SUCCESS)
            return; // srq.resize_larger says whether that is right
        for (DAT_UINT64 i = 6; i < 20; ++i)
            require_success(post(fixture.queue, eps.lmr.lmr_triplet(page, 8), i));
        eps.connect_without_messages();
        for (DAT_UINT64 i = 0; i < 20; ++i) {
            require_success(post_send(eps.active, eps.lmr.lmr_triplet(0, 8), i));
            expect_completion(eps.passive.recv_evd, eps.passive, i, 8);
            expect_completion(eps.active.request_evd, eps.active, i, 8);
        }
    });
    add_case(cases, "srq.resize_wrong", [] {
        const srq_fixture fixture;
        expect_return(dat_srq_resize(fixture.queue, 0), invalid_parameter(2));
        expect_return(dat_srq_resize(fixture.queue, -3), invalid_parameter(2));
        expect_return(dat_srq_resize(fixture.queue, fixture.eps.ia.ia_attr().max_recv_per_srq + 1),
                      invalid_parameter(2));
    });
    add_case(cases, "srq.resize_too_small", [] { // for what is there
        const srq_fixture fixture;
        for (DAT_UINT64 i = 0; i < dtos; ++i)
            require_success(post(fixture.queue, fixture.eps.lmr.lmr_triplet(0, 8), i));
        const DAT_RETURN got = dat_srq_resize(fixture.queue, 2);
        expect_true(DAT_GET_TYPE(got) == DAT_INVALID_STATE && (got & DAT_CLASS_ERROR),
                    "returned " + return_name(got) + ", not INVALID_STATE");
        expect_eq(queried(fixture.queue).outstanding_dto_count, dtos, "outstanding_dto_count");
    });
}

bool has_watermarks(const test_ia &ia) {
    return ia.provider_attr().srq_watermarks_supported != 0;
}

void watermarks(case_list &cases) {
    add_case(cases, "srq.low_watermark", [] {
        srq_fixture fixture;
        ep_pair &eps = fixture.eps;
        eps.passive = fixture.taker();
        for (DAT_UINT64 i = 0; i < 6; ++i)
            require_success(post(fixture.queue, eps.lmr.lmr_triplet(page, 8), i));
        const DAT_RETURN got = dat_srq_set_lw(fixture.queue, 3);
        if (!has_watermarks(eps.ia)) {
            expect_return(got, {not_supported, dat_error(DAT_NOT_IMPLEMENTED)});
            return;
        }
        require_success(got);
        expect_eq(queried(fixture.queue).low_watermark, 3, "low_watermark");
        eps.connect_without_messages();
        expect_no_event(eps.ia.async_evd());
        for (DAT_UINT64 i = 0; i < 4; ++i) {
            require_success(post_send(eps.active, eps.lmr.lmr_triplet(0, 8), i));
            expect_completion(eps.passive.recv_evd, eps.passive, i, 8);
            expect_completion(eps.active.request_evd, eps.active, i, 8);
        }
        const DAT_EVENT told = next_event(eps.ia.async_evd());
        const auto &event = told.event_data.asynch_error_event_data;
        expect_eq(event.dat_handle, fixture.queue, "what it is about");
        expect_eq(event.reason, DAT_SRQ_LOW_WATERMARK_EVENT, "the reason");
        expect_no_event(eps.ia.async_evd());
    });
    add_case(cases, "srq.low_watermark_wrong", [] {
        const srq_fixture fixture;
        for (const DAT_COUNT wrong : {-1, 5000}) {
            const DAT_RETURN got = dat_srq_set_lw(fixture.queue, wrong);
            if (has_watermarks(fixture.eps.ia))
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

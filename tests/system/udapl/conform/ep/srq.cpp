// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Shared receive queues.

#include "lib/cases.hpp"
#include "lib/test_ep.hpp"

#include <cstring>

namespace conform {

namespace {

constexpr DAT_COUNT max_recv_dtos = 16;

DAT_RETURN post_srq_recv(DAT_SRQ_HANDLE srq, DAT_LMR_TRIPLET local, DAT_UINT64 cookie) {
    return dat_srq_post_recv(srq, 1, &local, make_context(cookie));
}
DAT_SRQ_PARAM query_srq(DAT_SRQ_HANDLE srq) {
    poisoned<DAT_SRQ_PARAM> param;
    require_success(dat_srq_query(srq, DAT_SRQ_FIELD_ALL, param.ptr()));
    return param.value();
}

/// A pair, and an SRQ for its passive side.
struct srq_fixture {
    ep_pair eps;
    unique_srq srq = create_srq({max_recv_dtos, /*max_recv_iov=*/2, DAT_SRQ_LW_DEFAULT});

    unique_srq create_srq(DAT_SRQ_ATTR srq_attr, source_location loc = current_location()) const {
        DAT_SRQ_HANDLE handle = nullptr;
        require_success(dat_srq_create(eps.ia, eps.pz, &srq_attr, &handle), loc);
        return unique_srq(handle, loc);
    }
    test_ep create_ep() const { return test_ep(eps.ia, eps.pz, srq); }
    ~srq_fixture() {
        // The SRQ is freed before the pair, so no EP of the pair may use it.
        try {
            eps.passive = test_ep(eps.ia, eps.pz);
        } catch (const case_aborted &) { // it is noted
        }
    }
    /// dat_srq_create with these attributes returns one of these errors.
    void expect_create_refused(DAT_SRQ_ATTR srq_attr, std::initializer_list<DAT_RETURN> expected,
                               source_location loc = current_location()) const {
        DAT_SRQ_HANDLE handle = nullptr;
        const DAT_RETURN ret = dat_srq_create(eps.ia, eps.pz, &srq_attr, &handle);
        expect_return(ret, expected, loc);
        if (ret == DAT_SUCCESS)
            dat_srq_free(handle);
    }
};

void add_create_cases(case_list &cases) {
    add_case(cases, "srq.create_wrong", [] {
        const srq_fixture fixture;
        fixture.expect_create_refused({0, 1, 0}, {invalid_parameter(3)});
        fixture.expect_create_refused({-1, 1, 0}, {invalid_parameter(3)});
        fixture.expect_create_refused({8, -1, 0}, {invalid_parameter(3)});
        fixture.expect_create_refused({8, 1, -7}, {invalid_parameter(3)});
        fixture.expect_create_refused({8, 1, 9}, {invalid_parameter(3)});
    });
    add_case(cases, "srq.create_too_large", [] {
        const srq_fixture fixture;
        const DAT_IA_ATTR &ia_attr = fixture.eps.ia.ia_attr();
        fixture.expect_create_refused(
            {ia_attr.max_recv_per_srq + 1, 1, 0},
            {invalid_parameter(3), insufficient_resources(DAT_RESOURCE_SRQ)});
        fixture.expect_create_refused(
            {8, ia_attr.max_iov_segments_per_dto + 1, 0},
            {invalid_parameter(3), insufficient_resources(DAT_RESOURCE_SRQ)});
    });
    add_case(cases, "srq.create_null", [] {
        const srq_fixture fixture;
        DAT_SRQ_ATTR srq_attr{8, 1, 0};
        DAT_SRQ_HANDLE handle = nullptr;
        expect_return(dat_srq_create(fixture.eps.ia, fixture.eps.pz, nullptr, &handle),
                      invalid_parameter(3));
        expect_return(dat_srq_create(fixture.eps.ia, fixture.eps.pz, &srq_attr, nullptr),
                      invalid_parameter(4));
    });
    add_case(cases, "srq.attributes", [] { // of the IA and the provider tell of them
        const srq_fixture fixture;         // which has one
        expect_eq(fixture.eps.ia.provider_attr().srq_supported, DAT_TRUE, "srq_supported");
        const DAT_IA_ATTR &attr = fixture.eps.ia.ia_attr();
        expect_true(attr.max_srqs >= 1, "max_srqs is 0");
        expect_true(attr.max_ep_per_srq >= 1, "max_ep_per_srq is 0");
        expect_true(attr.max_recv_per_srq >= max_recv_dtos,
                    "max_recv_per_srq is less than it took");
    });
    add_case(cases, "srq.query", [] {
        const srq_fixture fixture;
        const DAT_SRQ_PARAM param = query_srq(fixture.srq);
        expect_eq(param.ia_handle, fixture.eps.ia, "ia_handle");
        expect_eq(param.srq_state, DAT_SRQ_STATE_OPERATIONAL, "srq_state");
        expect_eq(param.pz_handle, fixture.eps.pz, "pz_handle");
        expect_true(param.max_recv_dtos >= max_recv_dtos, "max_recv_dtos");
        expect_true(param.max_recv_iov >= 2, "max_recv_iov");
        expect_eq(param.low_watermark, DAT_SRQ_LW_DEFAULT, "low_watermark");
        expect_eq(param.outstanding_dto_count, 0, "outstanding_dto_count");
    });
    add_case(cases, "srq.query_mask_unknown", [] {
        const srq_fixture fixture;
        DAT_SRQ_PARAM param{};
        expect_return(dat_srq_query(fixture.srq, enum_cast<DAT_SRQ_PARAM_MASK>(0x100), &param),
                      invalid_parameter(2));
    });
    add_case(cases, "srq.query_null", [] {
        const srq_fixture fixture;
        expect_return(dat_srq_query(fixture.srq, DAT_SRQ_FIELD_ALL, nullptr), invalid_parameter(3));
    });
    add_case(cases, "srq.free_under_ep", [] {
        const srq_fixture fixture;
        const test_ep ep = fixture.create_ep();
        expect_return(dat_srq_free(fixture.srq), invalid_state(DAT_INVALID_STATE_SRQ_IN_USE));
        expect_eq(query_srq(fixture.srq).srq_state, DAT_SRQ_STATE_OPERATIONAL, "srq_state");
    });
    add_case(cases, "srq.free_with_receives", [] {
        srq_fixture fixture;
        for (DAT_UINT64 i = 0; i < 4; ++i)
            require_success(post_srq_recv(fixture.srq, fixture.eps.lmr.make_lmr_triplet(0, 8), i));
        expect_return(fixture.srq.free(), DAT_SUCCESS);
    });
}

void add_post_cases(case_list &cases) {
    add_case(cases, "srq.post_wrong", [] {
        const srq_fixture fixture;
        DAT_LMR_TRIPLET iov[64];
        for (DAT_LMR_TRIPLET &segment : iov)
            segment = fixture.eps.lmr.make_lmr_triplet(0, 8);
        expect_return(dat_srq_post_recv(fixture.srq, -1, iov, make_context(1)),
                      invalid_parameter(2));
        expect_return(dat_srq_post_recv(fixture.srq, 64, iov, make_context(1)),
                      invalid_parameter(2));
        expect_return(dat_srq_post_recv(fixture.srq, 1, nullptr, make_context(1)),
                      invalid_parameter(3));
        expect_eq(query_srq(fixture.srq).outstanding_dto_count, 0, "outstanding_dto_count");
    });
    add_case(cases, "srq.post_counted", [] {
        const srq_fixture fixture;
        for (DAT_UINT64 i = 0; i < 5; ++i)
            require_success(post_srq_recv(fixture.srq, fixture.eps.lmr.make_lmr_triplet(0, 8), i));
        const DAT_SRQ_PARAM param = query_srq(fixture.srq);
        expect_eq(param.outstanding_dto_count, 5, "outstanding_dto_count");
        expect_true(param.available_dto_count == DAT_VALUE_UNKNOWN ||
                        param.available_dto_count == param.max_recv_dtos - 5 ||
                        param.available_dto_count == 5,
                    concat("available_dto_count is ", param.available_dto_count));
    });
    add_case(cases, "srq.post_full", [] {
        const srq_fixture fixture;
        DAT_UINT64 posted = 0;
        DAT_RETURN ret = DAT_SUCCESS;
        for (; ret == DAT_SUCCESS && posted < 5000; ++posted)
            ret = post_srq_recv(fixture.srq, fixture.eps.lmr.make_lmr_triplet(0, 8), posted);
        expect_true(posted > max_recv_dtos, concat(posted, " were taken, not ", max_recv_dtos));
        expect_return(ret, insufficient_resources(DAT_RESOURCE_MEMORY));
    });
    add_case(cases, "srq.ep", [] { // has no receives of its own
        const srq_fixture fixture;
        const test_ep ep = fixture.create_ep();
        DAT_EP_PARAM param{};
        require_success(dat_ep_query(ep, DAT_EP_FIELD_ALL, &param));
        expect_eq(param.srq_handle, fixture.srq, "srq_handle");
        expect_return(post_recv(ep, fixture.eps.lmr.make_lmr_triplet(0, 8), 1),
                      invalid_state(DAT_INVALID_STATE_SRQ_IN_USE));
    });
    add_case(cases, "srq.ep_wrong", [] {
        const srq_fixture fixture;
        const ep_pair &eps = fixture.eps;
        DAT_EP_HANDLE handle = nullptr;
        for (const DAT_HANDLE bogus : {DAT_HANDLE(nullptr), DAT_HANDLE(eps.pz)})
            expect_return(dat_ep_create_with_srq(eps.ia, eps.pz, eps.passive.recv_evd,
                                                 eps.passive.request_evd, eps.passive.connect_evd,
                                                 bogus, nullptr, &handle),
                          invalid_handle(DAT_INVALID_HANDLE_SRQ));
        expect_return(dat_ep_create_with_srq(eps.ia, eps.pz, eps.passive.recv_evd,
                                             eps.passive.request_evd, eps.passive.connect_evd,
                                             fixture.srq, nullptr, nullptr),
                      invalid_parameter(8));
    });
}

/// Two EPs have one SRQ. A message to either takes the SRQ's next receive, in the order of posting,
/// and its completion names the EP.
void test_two_eps() {
    const auto recv_offset = [](DAT_UINT64 cookie) {
        return page_size * (4 + cookie);
    };
    srq_fixture fixture;
    ep_pair &eps = fixture.eps;
    eps.passive = fixture.create_ep();
    const test_ep second_active(eps.ia, eps.pz), second_ep = fixture.create_ep();
    for (DAT_UINT64 i = 0; i < max_recv_dtos; ++i)
        require_success(
            post_srq_recv(fixture.srq, eps.lmr.make_lmr_triplet(recv_offset(i), 100), i));
    eps.connect_without_messages();
    require_success(connect_ep(second_active, ia_address(eps.ia.ipv4_address()), eps.port));
    require_success(dat_cr_accept(eps.next_cr(), second_ep, 0, nullptr));
    next_event(second_active.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    next_event(second_ep.connect_evd, DAT_CONNECTION_EVENT_ESTABLISHED);
    DAT_UINT64 next = 0;
    for (std::size_t round = 0; round < 5; ++round) {
        const std::pair<const test_ep *, const test_ep *> connections[] = {
            {&eps.active, &eps.passive}, {&second_active, &second_ep}};
        for (const auto &[active, passive] : connections) {
            const std::size_t length = 40 + round;
            const auto data = make_pattern(length, static_cast<unsigned>(next));
            std::memcpy(eps.lmr.data(), data.data(), length);
            require_success(post_send(*active, eps.lmr.make_lmr_triplet(0, length), next));
            expect_completion(passive->recv_evd, *passive, next, length);
            expect_completion(active->request_evd, *active, next, length);
            expect_true(std::memcmp(eps.lmr.data() + recv_offset(next), data.data(), length) == 0,
                        "the data is not what was sent");
            ++next;
        }
    }
    expect_eq(query_srq(fixture.srq).outstanding_dto_count,
              static_cast<DAT_COUNT>(max_recv_dtos - next), "outstanding_dto_count");
}

void add_connected_cases(case_list &cases) {
    add_case(cases, "srq.two_takers", test_two_eps);
    add_case(cases, "srq.ep_broken_once", [] { // after its end: dtestsrq waits for it
        srq_fixture fixture;
        ep_pair &eps = fixture.eps;
        eps.passive = fixture.create_ep();
        require_success(post_srq_recv(fixture.srq, eps.lmr.make_lmr_triplet(page_size, 8), 1));
        eps.connect_without_messages();
        eps.disconnect();
        const DAT_EVENT event = next_event(eps.ia.async_evd(), DAT_ASYNC_ERROR_EP_BROKEN);
        expect_eq(event.event_data.asynch_error_event_data.dat_handle, eps.passive,
                  "the EP that is broken");
        expect_no_event(eps.ia.async_evd(), milliseconds(100));
    });
    add_case(cases, "srq.receives_outlive_ep", [] { // the next one has them
        srq_fixture fixture;
        ep_pair &eps = fixture.eps;
        require_success(post_srq_recv(fixture.srq, eps.lmr.make_lmr_triplet(page_size, 8), 11));
        require_success(post_srq_recv(fixture.srq, eps.lmr.make_lmr_triplet(page_size, 8), 12));
        for (DAT_UINT64 cookie : {11U, 12U}) {
            eps.passive = fixture.create_ep();
            eps.connect_without_messages();
            require_success(post_send(eps.active, eps.lmr.make_lmr_triplet(0, 8), 1));
            expect_completion(eps.passive.recv_evd, eps.passive, cookie, 8);
            expect_completion(eps.active.request_evd, eps.active, 1, 8);
            eps.disconnect();
            expect_no_event(eps.passive.recv_evd);
            require_success(dat_ep_reset(eps.active));
        }
    });
}

void add_resize_cases(case_list &cases) {
    add_case(cases, "srq.resize_larger", [] {
        const srq_fixture fixture;
        const DAT_RETURN ret = dat_srq_resize(fixture.srq, 200);
        // An iWARP device need not support it.
        if (ret == not_supported || ret == dat_error(DAT_NOT_IMPLEMENTED)) {
            expect_true(fixture.eps.ia.is_iwarp(), "it is not supported");
            return;
        }
        require_success(ret);
        expect_true(query_srq(fixture.srq).max_recv_dtos >= 200, "max_recv_dtos is as before");
        for (DAT_UINT64 i = 0; i < 200; ++i)
            require_success(post_srq_recv(fixture.srq, fixture.eps.lmr.make_lmr_triplet(0, 8), i));
    });
    add_case(cases, "srq.resize_with_receives", [] {
        srq_fixture fixture;
        ep_pair &eps = fixture.eps;
        eps.passive = fixture.create_ep();
        for (DAT_UINT64 i = 0; i < 6; ++i)
            require_success(post_srq_recv(fixture.srq, eps.lmr.make_lmr_triplet(page_size, 8), i));
        if (dat_srq_resize(fixture.srq, 100) != DAT_SUCCESS)
            return; // srq.resize_larger says whether that is right
        for (DAT_UINT64 i = 6; i < 20; ++i)
            require_success(post_srq_recv(fixture.srq, eps.lmr.make_lmr_triplet(page_size, 8), i));
        eps.connect_without_messages();
        for (DAT_UINT64 i = 0; i < 20; ++i) {
            require_success(post_send(eps.active, eps.lmr.make_lmr_triplet(0, 8), i));
            expect_completion(eps.passive.recv_evd, eps.passive, i, 8);
            expect_completion(eps.active.request_evd, eps.active, i, 8);
        }
    });
    add_case(cases, "srq.resize_wrong", [] {
        const srq_fixture fixture;
        expect_return(dat_srq_resize(fixture.srq, 0), invalid_parameter(2));
        expect_return(dat_srq_resize(fixture.srq, -3), invalid_parameter(2));
        expect_return(dat_srq_resize(fixture.srq, fixture.eps.ia.ia_attr().max_recv_per_srq + 1),
                      invalid_parameter(2));
    });
    add_case(cases, "srq.resize_too_small", [] { // for what is there
        const srq_fixture fixture;
        for (DAT_UINT64 i = 0; i < max_recv_dtos; ++i)
            require_success(post_srq_recv(fixture.srq, fixture.eps.lmr.make_lmr_triplet(0, 8), i));
        const DAT_RETURN ret = dat_srq_resize(fixture.srq, 2);
        expect_true(DAT_GET_TYPE(ret) == DAT_INVALID_STATE && (ret & DAT_CLASS_ERROR),
                    "returned " + return_name(ret) + ", not INVALID_STATE");
        expect_eq(query_srq(fixture.srq).outstanding_dto_count, max_recv_dtos,
                  "outstanding_dto_count");
    });
}

bool has_watermarks(const test_ia &ia) {
    return ia.provider_attr().srq_watermarks_supported != 0;
}

void add_watermark_cases(case_list &cases) {
    add_case(cases, "srq.low_watermark", [] {
        srq_fixture fixture;
        ep_pair &eps = fixture.eps;
        eps.passive = fixture.create_ep();
        for (DAT_UINT64 i = 0; i < 6; ++i)
            require_success(post_srq_recv(fixture.srq, eps.lmr.make_lmr_triplet(page_size, 8), i));
        const DAT_RETURN ret = dat_srq_set_lw(fixture.srq, 3);
        if (!has_watermarks(eps.ia)) {
            expect_return(ret, {not_supported, dat_error(DAT_NOT_IMPLEMENTED)});
            return;
        }
        require_success(ret);
        expect_eq(query_srq(fixture.srq).low_watermark, 3, "low_watermark");
        eps.connect_without_messages();
        expect_no_event(eps.ia.async_evd());
        for (DAT_UINT64 i = 0; i < 4; ++i) {
            require_success(post_send(eps.active, eps.lmr.make_lmr_triplet(0, 8), i));
            expect_completion(eps.passive.recv_evd, eps.passive, i, 8);
            expect_completion(eps.active.request_evd, eps.active, i, 8);
        }
        const DAT_EVENT event = next_event(eps.ia.async_evd());
        const auto &async_error = event.event_data.asynch_error_event_data;
        expect_eq(async_error.dat_handle, fixture.srq, "what it is about");
        expect_eq(async_error.reason, DAT_SRQ_LOW_WATERMARK_EVENT, "the reason");
        expect_no_event(eps.ia.async_evd());
    });
    add_case(cases, "srq.low_watermark_wrong", [] {
        const srq_fixture fixture;
        for (const DAT_COUNT low_watermark : {-1, 5000}) {
            const DAT_RETURN ret = dat_srq_set_lw(fixture.srq, low_watermark);
            if (has_watermarks(fixture.eps.ia))
                expect_return(ret, invalid_parameter(2));
            else
                expect_return(
                    ret, {not_supported, dat_error(DAT_NOT_IMPLEMENTED), invalid_parameter(2)});
        }
    });
}

} // namespace

void add_srq(case_list &cases) {
    add_create_cases(cases);
    add_post_cases(cases);
    add_connected_cases(cases);
    add_resize_cases(cases);
    add_watermark_cases(cases);
}

} // namespace conform

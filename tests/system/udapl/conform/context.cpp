// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What every object has: the consumer's context, and its type.

#include "cases.hpp"
#include "test_ep.hpp"

namespace conform {

namespace {

/// Its context is 0 at first, and then what was set; its type is right.
void has(DAT_HANDLE one, DAT_HANDLE_TYPE type, source_location loc = current_location()) {
    DAT_HANDLE_TYPE got{};
    if (expect_return(dat_get_handle_type(one, &got), DAT_SUCCESS, loc))
        expect_eq(got, type, "the type", loc);
    DAT_CONTEXT is_now = make_context(7);
    if (!expect_return(dat_get_consumer_context(one, &is_now), DAT_SUCCESS, loc))
        return;
    expect_eq(is_now.as_64, 0, "the context at first", loc);
    for (const DAT_UINT64 value : {0x1234567890abcdefU, DAT_UINT64{0}, ~DAT_UINT64{0}}) {
        expect_return(dat_set_consumer_context(one, make_context(value)), DAT_SUCCESS, loc);
        expect_return(dat_get_consumer_context(one, &is_now), DAT_SUCCESS, loc);
        expect_eq(is_now.as_64, value, "the context", loc);
    }
}

void simple(case_list &cases) {
    add_case(cases, "context.ia", [] {
        const test_ia ia;
        has(ia, DAT_HANDLE_TYPE_IA);
    });
    add_case(cases, "context.two_ias", [] { // each has its own
        const test_ia one, two;
        require_success(dat_set_consumer_context(one, make_context(1)));
        require_success(dat_set_consumer_context(two, make_context(2)));
        DAT_CONTEXT is_now{};
        require_success(dat_get_consumer_context(one, &is_now));
        expect_eq(is_now.as_64, 1, "the first one's context");
    });
    add_case(cases, "context.pz", [] {
        const test_ia ia;
        has(ia.create_pz(), DAT_HANDLE_TYPE_PZ);
    });
    add_case(cases, "context.evd", [] {
        const test_ia ia;
        has(ia.create_evd(DAT_EVD_DTO_FLAG), DAT_HANDLE_TYPE_EVD);
        has(ia.async_evd(), DAT_HANDLE_TYPE_EVD);
    });
    add_case(cases, "context.cno", [] {
        const test_ia ia;
        has(ia.create_cno(), DAT_HANDLE_TYPE_CNO);
    });
    add_case(cases, "context.lmr", [] {
        const test_ia ia;
        const unique_pz zone = ia.create_pz();
        has(test_lmr(ia, zone, page), DAT_HANDLE_TYPE_LMR);
    });
    add_case(cases, "context.ep", [] {
        const test_ia ia;
        const unique_pz zone = ia.create_pz();
        has(test_ep(ia, zone), DAT_HANDLE_TYPE_EP);
    });
    add_case(cases, "context.srq", [] {
        const test_ia ia;
        const unique_pz zone = ia.create_pz();
        DAT_SRQ_ATTR size{4, 1, DAT_SRQ_LW_DEFAULT};
        DAT_SRQ_HANDLE made = nullptr;
        require_success(dat_srq_create(ia, zone, &size, &made));
        const unique_srq queue(made);
        has(queue, DAT_HANDLE_TYPE_SRQ);
    });
    add_case(cases, "context.rmr", [] {
        const test_ia ia;
        const unique_pz zone = ia.create_pz();
        DAT_RMR_HANDLE made = nullptr;
        const DAT_RETURN got = dat_rmr_create(zone, &made);
        // A device that has no windows may have RMRs that cannot be bound.
        if (ia.ia_attr().max_rmrs == 0 && got != DAT_SUCCESS) {
            expect_return(got, {not_supported, dat_error(DAT_NOT_IMPLEMENTED)});
            return;
        }
        require_success(got);
        const unique_rmr window(made);
        has(window, DAT_HANDLE_TYPE_RMR);
    });
}

void listeners(case_list &cases) {
    add_case(cases, "context.psp", [] {
        const ep_pair eps;
        has(eps.psp, DAT_HANDLE_TYPE_PSP);
    });
    add_case(cases, "context.rsp", [] {
        const ep_pair eps;
        DAT_RSP_HANDLE made = nullptr;
        require_success(dat_rsp_create(eps.ia, unused_port(), eps.passive, eps.cr_evd, &made));
        const unique_rsp point(made);
        has(point, DAT_HANDLE_TYPE_RSP);
    });
    add_case(cases, "context.cr", [] {
        ep_pair eps;
        require_success(eps.request_connection());
        const DAT_CR_HANDLE request = eps.next_cr();
        has(request, DAT_HANDLE_TYPE_CR);
        require_success(dat_cr_reject(request, 0, nullptr));
        next_event(eps.active.connect_evd);
    });
    add_case(cases, "context.stays_through_life", [] { // of an EP
        ep_pair eps;
        require_success(dat_set_consumer_context(eps.active, make_context(77)));
        eps.connect();
        eps.disconnect();
        require_success(dat_ep_reset(eps.active));
        DAT_CONTEXT is_now{};
        require_success(dat_get_consumer_context(eps.active, &is_now));
        expect_eq(is_now.as_64, 77, "the context");
    });
    add_case(cases, "context.null", [] {
        const test_ia ia;
        const unique_pz zone = ia.create_pz();
        expect_return(dat_get_consumer_context(zone, nullptr), invalid_parameter(2));
        expect_return(dat_get_handle_type(zone, nullptr), invalid_parameter(2));
    });
    add_case(cases, "context.null_of_ia", [] {
        const test_ia ia;
        expect_return(dat_get_consumer_context(ia, nullptr), invalid_parameter(2));
        expect_return(dat_get_handle_type(ia, nullptr), invalid_parameter(2));
    });
}

} // namespace

void add_context(case_list &cases) {
    simple(cases);
    listeners(cases);
}

} // namespace conform

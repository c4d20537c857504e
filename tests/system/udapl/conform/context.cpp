// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What every object has: the consumer's context, and its type.

#include "cases.hpp"
#include "endpoint.hpp"

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
        const adapter ia;
        has(ia, DAT_HANDLE_TYPE_IA);
    });
    add_case(cases, "context.two_ias", [] { // each has its own
        const adapter one, two;
        require_success(dat_set_consumer_context(one, make_context(1)));
        require_success(dat_set_consumer_context(two, make_context(2)));
        DAT_CONTEXT is_now{};
        require_success(dat_get_consumer_context(one, &is_now));
        expect_eq(is_now.as_64, 1, "the first one's context");
    });
    add_case(cases, "context.pz", [] {
        const adapter ia;
        has(ia.zone(), DAT_HANDLE_TYPE_PZ);
    });
    add_case(cases, "context.evd", [] {
        const adapter ia;
        has(ia.events(DAT_EVD_DTO_FLAG), DAT_HANDLE_TYPE_EVD);
        has(ia.async(), DAT_HANDLE_TYPE_EVD);
    });
    add_case(cases, "context.cno", [] {
        const adapter ia;
        has(ia.notifier(), DAT_HANDLE_TYPE_CNO);
    });
    add_case(cases, "context.lmr", [] {
        const adapter ia;
        const unique_pz zone = ia.zone();
        has(region(ia, zone, page), DAT_HANDLE_TYPE_LMR);
    });
    add_case(cases, "context.ep", [] {
        const adapter ia;
        const unique_pz zone = ia.zone();
        has(endpoint(ia, zone), DAT_HANDLE_TYPE_EP);
    });
    add_case(cases, "context.srq", [] {
        const adapter ia;
        const unique_pz zone = ia.zone();
        DAT_SRQ_ATTR size{4, 1, DAT_SRQ_LW_DEFAULT};
        DAT_SRQ_HANDLE made = nullptr;
        require_success(dat_srq_create(ia, zone, &size, &made));
        const unique_srq queue(made);
        has(queue, DAT_HANDLE_TYPE_SRQ);
    });
    add_case(cases, "context.rmr", [] {
        const adapter ia;
        const unique_pz zone = ia.zone();
        DAT_RMR_HANDLE made = nullptr;
        const DAT_RETURN got = dat_rmr_create(zone, &made);
        // A device that has no windows may have RMRs that cannot be bound.
        if (ia.attributes().max_rmrs == 0 && got != DAT_SUCCESS) {
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
        const couple pair;
        has(pair.listener, DAT_HANDLE_TYPE_PSP);
    });
    add_case(cases, "context.rsp", [] {
        const couple pair;
        DAT_RSP_HANDLE made = nullptr;
        require_success(dat_rsp_create(pair.ia, fresh_port(), pair.passive, pair.arrivals, &made));
        const unique_rsp point(made);
        has(point, DAT_HANDLE_TYPE_RSP);
    });
    add_case(cases, "context.cr", [] {
        couple pair;
        require_success(pair.call());
        const DAT_CR_HANDLE request = pair.request();
        has(request, DAT_HANDLE_TYPE_CR);
        require_success(dat_cr_reject(request, 0, nullptr));
        next_event(pair.active.connection);
    });
    add_case(cases, "context.stays_through_life", [] { // of an EP
        couple pair;
        require_success(dat_set_consumer_context(pair.active, make_context(77)));
        pair.join();
        pair.part();
        require_success(dat_ep_reset(pair.active));
        DAT_CONTEXT is_now{};
        require_success(dat_get_consumer_context(pair.active, &is_now));
        expect_eq(is_now.as_64, 77, "the context");
    });
    add_case(cases, "context.null", [] {
        const adapter ia;
        const unique_pz zone = ia.zone();
        expect_return(dat_get_consumer_context(zone, nullptr), invalid_parameter(2));
        expect_return(dat_get_handle_type(zone, nullptr), invalid_parameter(2));
    });
    add_case(cases, "context.null_of_ia", [] {
        const adapter ia;
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

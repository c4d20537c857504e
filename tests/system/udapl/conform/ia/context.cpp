// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What every object has: the consumer's context, and its type.

#include "lib/cases.hpp"
#include "lib/test_ep.hpp"

namespace conform {

namespace {

/// Its context is 0 at first, and then what was set; its type is right.
void expect_context_and_type(DAT_HANDLE handle, DAT_HANDLE_TYPE type,
                             source_location loc = current_location()) {
    DAT_HANDLE_TYPE actual_type{};
    if (expect_return(dat_get_handle_type(handle, &actual_type), DAT_SUCCESS, loc))
        expect_eq(actual_type, type, "the type", loc);
    DAT_CONTEXT context = make_context(7);
    if (!expect_return(dat_get_consumer_context(handle, &context), DAT_SUCCESS, loc))
        return;
    expect_eq(context.as_64, 0, "the context at first", loc);
    for (const DAT_UINT64 value : {0x1234567890abcdefU, DAT_UINT64{0}, ~DAT_UINT64{0}}) {
        expect_return(dat_set_consumer_context(handle, make_context(value)), DAT_SUCCESS, loc);
        expect_return(dat_get_consumer_context(handle, &context), DAT_SUCCESS, loc);
        expect_eq(context.as_64, value, "the context", loc);
    }
}

void add_object_cases(case_list &cases) {
    add_case(cases, "context.ia", [] {
        const test_ia ia;
        expect_context_and_type(ia, DAT_HANDLE_TYPE_IA);
    });
    add_case(cases, "context.two_ias", [] { // each has its own
        const test_ia first_ia, second_ia;
        require_success(dat_set_consumer_context(first_ia, make_context(1)));
        require_success(dat_set_consumer_context(second_ia, make_context(2)));
        DAT_CONTEXT context{};
        require_success(dat_get_consumer_context(first_ia, &context));
        expect_eq(context.as_64, 1, "the first one's context");
    });
    add_case(cases, "context.pz", [] {
        const test_ia ia;
        expect_context_and_type(ia.create_pz(), DAT_HANDLE_TYPE_PZ);
    });
    add_case(cases, "context.evd", [] {
        const test_ia ia;
        expect_context_and_type(ia.create_evd(DAT_EVD_DTO_FLAG), DAT_HANDLE_TYPE_EVD);
        expect_context_and_type(ia.async_evd(), DAT_HANDLE_TYPE_EVD);
    });
    add_case(cases, "context.cno", [] {
        const test_ia ia;
        expect_context_and_type(ia.create_cno(), DAT_HANDLE_TYPE_CNO);
    });
    add_case(cases, "context.lmr", [] {
        const test_ia ia;
        const unique_pz pz = ia.create_pz();
        expect_context_and_type(test_lmr(ia, pz, page_size), DAT_HANDLE_TYPE_LMR);
    });
    add_case(cases, "context.ep", [] {
        const test_ia ia;
        const unique_pz pz = ia.create_pz();
        expect_context_and_type(test_ep(ia, pz), DAT_HANDLE_TYPE_EP);
    });
    add_case(cases, "context.srq", [] {
        const test_ia ia;
        const unique_pz pz = ia.create_pz();
        DAT_SRQ_ATTR srq_attr{4, 1, DAT_SRQ_LW_DEFAULT};
        DAT_SRQ_HANDLE handle = nullptr;
        require_success(dat_srq_create(ia, pz, &srq_attr, &handle));
        const unique_srq srq(handle);
        expect_context_and_type(srq, DAT_HANDLE_TYPE_SRQ);
    });
    add_case(cases, "context.rmr", [] {
        const test_ia ia;
        const unique_pz pz = ia.create_pz();
        DAT_RMR_HANDLE handle = nullptr;
        const DAT_RETURN ret = dat_rmr_create(pz, &handle);
        // A device that has no windows may have RMRs that cannot be bound.
        if (ia.ia_attr().max_rmrs == 0 && ret != DAT_SUCCESS) {
            expect_return(ret, {not_supported, dat_error(DAT_NOT_IMPLEMENTED)});
            return;
        }
        require_success(ret);
        const unique_rmr rmr(handle);
        expect_context_and_type(rmr, DAT_HANDLE_TYPE_RMR);
    });
}

void add_service_point_cases(case_list &cases) {
    add_case(cases, "context.psp", [] {
        const ep_pair eps;
        expect_context_and_type(eps.psp, DAT_HANDLE_TYPE_PSP);
    });
    add_case(cases, "context.rsp", [] {
        const ep_pair eps;
        DAT_RSP_HANDLE handle = nullptr;
        require_success(dat_rsp_create(eps.ia, unused_port(), eps.passive, eps.cr_evd, &handle));
        const unique_rsp rsp(handle);
        expect_context_and_type(rsp, DAT_HANDLE_TYPE_RSP);
    });
    add_case(cases, "context.cr", [] {
        ep_pair eps;
        require_success(eps.request_connection());
        const DAT_CR_HANDLE cr = eps.next_cr();
        expect_context_and_type(cr, DAT_HANDLE_TYPE_CR);
        require_success(dat_cr_reject(cr, 0, nullptr));
        next_event(eps.active.connect_evd);
    });
    add_case(cases, "context.stays_through_life", [] { // of an EP
        ep_pair eps;
        require_success(dat_set_consumer_context(eps.active, make_context(77)));
        eps.connect();
        eps.disconnect();
        require_success(dat_ep_reset(eps.active));
        DAT_CONTEXT context{};
        require_success(dat_get_consumer_context(eps.active, &context));
        expect_eq(context.as_64, 77, "the context");
    });
    add_case(cases, "context.null", [] {
        const test_ia ia;
        const unique_pz pz = ia.create_pz();
        expect_return(dat_get_consumer_context(pz, nullptr), invalid_parameter(2));
        expect_return(dat_get_handle_type(pz, nullptr), invalid_parameter(2));
    });
    add_case(cases, "context.null_of_ia", [] {
        const test_ia ia;
        expect_return(dat_get_consumer_context(ia, nullptr), invalid_parameter(2));
        expect_return(dat_get_handle_type(ia, nullptr), invalid_parameter(2));
    });
}

} // namespace

void add_context(case_list &cases) {
    add_object_cases(cases);
    add_service_point_cases(cases);
}

} // namespace conform

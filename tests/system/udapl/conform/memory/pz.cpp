// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Protection zones.

#include "lib/cases.hpp"
#include "lib/test_ep.hpp"
#include "lib/test_ia.hpp"

namespace conform {

namespace {

void add_invalid_argument_cases(case_list &cases) {
    add_case(cases, "pz.create_null", [] {
        const test_ia ia;
        expect_return(dat_pz_create(ia, nullptr), invalid_parameter(2));
    });
    add_case(cases, "pz.query_mask_unknown", [] {
        const test_ia ia;
        const unique_pz pz = ia.create_pz();
        DAT_PZ_PARAM param{};
        expect_return(dat_pz_query(pz, enum_cast<DAT_PZ_PARAM_MASK>(DAT_PZ_FIELD_ALL + 1), &param),
                      invalid_parameter(2));
    });
    add_case(cases, "pz.query_null", [] {
        const test_ia ia;
        const unique_pz pz = ia.create_pz();
        expect_return(dat_pz_query(pz, DAT_PZ_FIELD_ALL, nullptr), invalid_parameter(3));
    });
}

/// dat_pz_free is refused, and the PZ can be used afterwards.
void expect_pz_in_use(DAT_PZ_HANDLE pz, source_location loc = current_location()) {
    expect_return(dat_pz_free(pz), invalid_state(DAT_INVALID_STATE_PZ_IN_USE), loc);
    DAT_PZ_PARAM param{};
    expect_return(dat_pz_query(pz, DAT_PZ_FIELD_ALL, &param), DAT_SUCCESS, loc);
}

void add_in_use_cases(case_list &cases) {
    add_case(cases, "pz.free_under_lmr", [] {
        const test_ia ia;
        const unique_pz pz = ia.create_pz();
        const test_lmr lmr(ia, pz, page_size);
        expect_pz_in_use(pz);
    });
    add_case(cases, "pz.free_under_ep", [] {
        const test_ia ia;
        const unique_pz pz = ia.create_pz();
        const test_ep ep(ia, pz);
        expect_pz_in_use(pz);
    });
    add_case(cases, "pz.free_under_rmr", [] {
        const test_ia ia;
        const unique_pz pz = ia.create_pz();
        DAT_RMR_HANDLE handle = nullptr;
        require_success(dat_rmr_create(pz, &handle));
        const unique_rmr rmr(handle);
        expect_pz_in_use(pz);
    });
    add_case(cases, "pz.free_under_srq", [] {
        const test_ia ia;
        const unique_pz pz = ia.create_pz();
        DAT_SRQ_ATTR srq_attr{4, 1, DAT_SRQ_LW_DEFAULT};
        DAT_SRQ_HANDLE handle = nullptr;
        require_success(dat_srq_create(ia, pz, &srq_attr, &handle));
        const unique_srq srq(handle);
        expect_pz_in_use(pz);
    });
}

} // namespace

void add_pz(case_list &cases) {
    add_invalid_argument_cases(cases);
    add_in_use_cases(cases);
    add_case(cases, "pz.query", [] {
        const test_ia ia;
        const unique_pz pz = ia.create_pz();
        poisoned<DAT_PZ_PARAM> param;
        expect_return(dat_pz_query(pz, DAT_PZ_FIELD_ALL, param.ptr()), DAT_SUCCESS);
        expect_eq(param->ia_handle, ia, "its IA");
    });
    add_case(cases, "pz.many", [] {
        const test_ia ia;
        std::vector<unique_pz> pzs;
        for (int i = 0; i < 100; ++i)
            pzs.push_back(ia.create_pz());
        for (std::size_t i = 1; i < pzs.size(); ++i)
            expect_true(pzs[i] != pzs[i - 1], "two have the same handle");
    });
}

} // namespace conform

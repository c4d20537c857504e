// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Protection zones.

#include "cases.hpp"
#include "test_ep.hpp"
#include "test_ia.hpp"

namespace conform {

namespace {

void wrong_arguments(case_list &cases) {
    add_case(cases, "pz.create_null", [] {
        const test_ia ia;
        expect_return(dat_pz_create(ia, nullptr), invalid_parameter(2));
    });
    add_case(cases, "pz.query_mask_unknown", [] {
        const test_ia ia;
        const unique_pz zone = ia.create_pz();
        DAT_PZ_PARAM is_now{};
        expect_return(
            dat_pz_query(zone, enum_cast<DAT_PZ_PARAM_MASK>(DAT_PZ_FIELD_ALL + 1), &is_now),
            invalid_parameter(2));
    });
    add_case(cases, "pz.query_null", [] {
        const test_ia ia;
        const unique_pz zone = ia.create_pz();
        expect_return(dat_pz_query(zone, DAT_PZ_FIELD_ALL, nullptr), invalid_parameter(3));
    });
}

/// It cannot be freed as long as that lives, and is whole after it was tried.
void in_use(DAT_PZ_HANDLE zone, source_location loc = current_location()) {
    expect_return(dat_pz_free(zone), invalid_state(DAT_INVALID_STATE_PZ_IN_USE), loc);
    DAT_PZ_PARAM is_now{};
    expect_return(dat_pz_query(zone, DAT_PZ_FIELD_ALL, &is_now), DAT_SUCCESS, loc);
}

void used(case_list &cases) {
    add_case(cases, "pz.free_under_lmr", [] {
        const test_ia ia;
        const unique_pz zone = ia.create_pz();
        const test_lmr memory(ia, zone, page);
        in_use(zone);
    });
    add_case(cases, "pz.free_under_ep", [] {
        const test_ia ia;
        const unique_pz zone = ia.create_pz();
        const test_ep one(ia, zone);
        in_use(zone);
    });
    add_case(cases, "pz.free_under_rmr", [] {
        const test_ia ia;
        const unique_pz zone = ia.create_pz();
        DAT_RMR_HANDLE made = nullptr;
        require_success(dat_rmr_create(zone, &made));
        const unique_rmr window(made);
        in_use(zone);
    });
    add_case(cases, "pz.free_under_srq", [] {
        const test_ia ia;
        const unique_pz zone = ia.create_pz();
        DAT_SRQ_ATTR size{4, 1, DAT_SRQ_LW_DEFAULT};
        DAT_SRQ_HANDLE made = nullptr;
        require_success(dat_srq_create(ia, zone, &size, &made));
        const unique_srq queue(made);
        in_use(zone);
    });
}

} // namespace

void add_pz(case_list &cases) {
    wrong_arguments(cases);
    used(cases);
    add_case(cases, "pz.query", [] {
        const test_ia ia;
        const unique_pz zone = ia.create_pz();
        poisoned<DAT_PZ_PARAM> is_now;
        expect_return(dat_pz_query(zone, DAT_PZ_FIELD_ALL, is_now.ptr()), DAT_SUCCESS);
        expect_eq(is_now->ia_handle, ia, "its IA");
    });
    add_case(cases, "pz.many", [] {
        const test_ia ia;
        std::vector<unique_pz> zones;
        for (int i = 0; i < 100; ++i)
            zones.push_back(ia.create_pz());
        for (std::size_t i = 1; i < zones.size(); ++i)
            expect_true(zones[i] != zones[i - 1], "two have the same handle");
    });
}

} // namespace conform

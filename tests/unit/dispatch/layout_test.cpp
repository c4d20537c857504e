// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The DAT 1.2 structures and constants of dispatch/ against tests/data/dat, by static assertions.
// Types that DAT 1.2 shares with 2.0 are included.

#include "dispatch/dat1_calls.hpp"

#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

extern "C" {
#include <cmocka.h>
}

using namespace coherdma::dapl;

namespace dat1_layout {

using coherdma::dapl::dat1::dat2_cno_mask;
using coherdma::dapl::dat1::dat2_ep_mask;
using coherdma::dapl::dat1::dat2_ia_mask;
using coherdma::dapl::dat1::dat2_lmr_mask;
using coherdma::dapl::dat1::dat2_provider_mask;
using coherdma::dapl::dat1::dat2_rmr_mask;

// The type names of tests/data/dat.
#define SAME_AS_DAT2(type) using type = ::type
SAME_AS_DAT2(DAT_NAMED_ATTR);
SAME_AS_DAT2(DAT_CONTEXT);
SAME_AS_DAT2(DAT_SRQ_ATTR);
SAME_AS_DAT2(DAT_SRQ_PARAM);
SAME_AS_DAT2(DAT_PZ_PARAM);
SAME_AS_DAT2(DAT_PSP_PARAM);
SAME_AS_DAT2(DAT_RSP_PARAM);
SAME_AS_DAT2(DAT_CR_PARAM);
SAME_AS_DAT2(DAT_RMR_BIND_COMPLETION_EVENT_DATA);
SAME_AS_DAT2(DAT_SP_HANDLE);
SAME_AS_DAT2(DAT_CONNECTION_EVENT_DATA);
SAME_AS_DAT2(DAT_ASYNCH_ERROR_EVENT_DATA);
SAME_AS_DAT2(DAT_SOFTWARE_EVENT_DATA);
SAME_AS_DAT2(DAT_PROVIDER_INFO);
SAME_AS_DAT2(DAT_EVD_PARAM);
SAME_AS_DAT2(DAT_OS_WAIT_PROXY_AGENT);
SAME_AS_DAT2(DAT_SHARED_MEMORY);
SAME_AS_DAT2(DAT_REGION_DESCRIPTION);
using DAT_LMR_TRIPLET = dat1::lmr_triplet;
using DAT_RMR_TRIPLET = dat1::rmr_triplet;
using DAT_RMR_PARAM = dat1::rmr_param;
using DAT_LMR_PARAM = dat1::lmr_param;
using DAT_IA_ATTR = dat1::ia_attr;
using DAT_EP_ATTR = dat1::ep_attr;
using DAT_EP_PARAM = dat1::ep_param;
using DAT_CNO_PARAM = dat1::cno_param;
using DAT_DTO_COMPLETION_EVENT_DATA = dat1::dto_completion_event_data;
using DAT_CR_ARRIVAL_EVENT_DATA = dat1::cr_arrival_event_data;
using DAT_EVENT_DATA = dat1::event_data;
using DAT_EVENT = dat1::event;
using DAT_PROVIDER_ATTR = dat1::provider_attr;
using DAT_PROVIDER = dat1::provider;

#if UINTPTR_MAX == UINT64_MAX // the tables describe 64-bit machines
#    define SIZE(type, size) static_assert(sizeof(type) == (size), #    type);
#    define MEMBER(type, member, offset, size)                                                     \
        static_assert(offsetof(type, member) == (offset) && sizeof(type::member) == (size),        \
                      #type "." #member);
#    include "dat1_layout.inc"
#endif

template <class mask_type>
constexpr bool is_subset(mask_type mask, DAT_UINT64 all) {
    return (static_cast<DAT_UINT64>(mask) & ~all) == 0;
}
template <class mask_type>
constexpr mask_type to_mask(DAT_UINT64 bits) {
    return static_cast<mask_type>(bits);
}

#define SAME(name, value) static_assert((name) == (value), #name);
#define MASK(type, function, name, value)                                                          \
    static_assert(function(to_mask<type>(value)) == (name), #name);
#define MASK_IA(name, value) MASK(DAT_IA_ATTR_MASK, dat2_ia_mask, name, value)
#define MASK_EP(name, value) MASK(DAT_EP_PARAM_MASK, dat2_ep_mask, name, value)
#define MASK_LMR(name, value) MASK(DAT_LMR_PARAM_MASK, dat2_lmr_mask, name, value)
#define MASK_RMR(name, value) MASK(DAT_RMR_PARAM_MASK, dat2_rmr_mask, name, value)
#define MASK_CNO(name, value) MASK(DAT_CNO_PARAM_MASK, dat2_cno_mask, name, value)
#define MASK_PROVIDER(name, value) MASK(DAT_PROVIDER_ATTR_MASK, dat2_provider_mask, name, value)
// DAT 1.2's ALL mask converts to bits of 2.0; one more bit does not.
#define ALL(type, function, all, value)                                                            \
    static_assert(is_subset(function(to_mask<type>(value)), all) &&                                \
                  !is_subset(function(to_mask<type>((value) + UINT64_C(1) + (value))), all));
#define ALL_IA(name, value) ALL(DAT_IA_ATTR_MASK, dat2_ia_mask, DAT_IA_FIELD_ALL, value)
#define ALL_LMR(name, value) ALL(DAT_LMR_PARAM_MASK, dat2_lmr_mask, DAT_LMR_FIELD_ALL, value)
#define ALL_RMR(name, value) ALL(DAT_RMR_PARAM_MASK, dat2_rmr_mask, DAT_RMR_FIELD_ALL, value)
#define ALL_CNO(name, value) ALL(DAT_CNO_PARAM_MASK, dat2_cno_mask, 7, value)
#define ALL_PROVIDER(name, value)                                                                  \
    ALL(DAT_PROVIDER_ATTR_MASK, dat2_provider_mask, DAT_PROVIDER_FIELD_ALL, value)
#define ALL_EP(name, value)                                                                        \
    static_assert(is_subset(dat2_ep_mask(to_mask<DAT_EP_PARAM_MASK>(value)), DAT_EP_FIELD_ALL) &&  \
                  !is_subset(dat2_ep_mask(0x800), DAT_EP_FIELD_ALL) &&                             \
                  !is_subset(dat2_ep_mask(0x80000000), DAT_EP_FIELD_ALL));
#define SRQ_STATE(name, value) static_assert(dat1::dat1_srq_state(name) == (value), #name);
#define SUBTYPE(name, value) static_assert(dat1::dat1_subtype(name) == (value), #name);
#define NOT_IMPLEMENTED(name, value)                                                               \
    static_assert(dat1::convert_result(dat_error(name)) == UINT32_C(value));
#include "dat1_constants.inc"

} // namespace dat1_layout

namespace {

// A value of each range of subtypes that differs, and values that DAT 1.2 lacks.
void dat1_return_values_translated(void **) {
    const struct {
        DAT_RETURN dat2_value, dat1_value;
    } cases[] = {
        {DAT_SUCCESS, DAT_SUCCESS},
        {DAT_QUEUE_EMPTY, DAT_QUEUE_EMPTY},
        {invalid_handle(DAT_INVALID_HANDLE_SRQ), 0x80050019},
        {invalid_handle(DAT_INVALID_HANDLE_CSP), 0x80050010},
        {invalid_handle(DAT_INVALID_HANDLE1), 0x8005001a},
        {invalid_parameter(1), 0x80060024},
        {invalid_parameter(10), 0x8006002d},
        {invalid_state(DAT_INVALID_STATE_SRQ_IN_USE), 0x80070056},
        {invalid_state(DAT_INVALID_STATE_SRQ_SHUTDOWN), 0x80070055},
        {dat_error(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_READ), 0x800b0057},
        {dat_error(DAT_PROVIDER_NOT_FOUND, DAT_THREAD_SAFETY_NOT_FOUND), 0x800a0065},
        {DAT_CLASS_WARNING | DAT_LENGTH_ERROR, 0x40080000},
        {dat_error(DAT_RESERVED_LMR), 0x800c0000},
        {dat_error(DAT_PORT_IN_USE), 0x80020000},
        {dat_error(DAT_COMM_NOT_SUPPORTED), 0x80090000},
        {dat_error(DAT_NOT_IMPLEMENTED), 0xffff0000},
    };
    for (const auto &it : cases)
        assert_int_equal(dat1::convert_result(it.dat2_value), it.dat1_value);
}

void dat1_argument_numbers_translated(void **) {
    const auto after_third = [](unsigned n) {
        return n > 3 ? n - 1 : n;
    };
    assert_int_equal(dat1::renumber_argument(invalid_parameter(10), after_third),
                     invalid_parameter(9));
    assert_int_equal(dat1::renumber_argument(invalid_parameter(3), after_third),
                     invalid_parameter(3));
    for (const DAT_RETURN unchanged : {DAT_RETURN{DAT_SUCCESS}, dat_error(DAT_INVALID_PARAMETER),
                                       invalid_state(DAT_INVALID_STATE_EP_UNCONNECTED)})
        assert_int_equal(dat1::renumber_argument(unchanged, after_third), unchanged);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(dat1_return_values_translated),
        cmocka_unit_test(dat1_argument_numbers_translated),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// DAT 1.2 as our face of it has it, against tests/data/dat: every member of every structure, and
// every constant, by the compiler. What 1.2 has in common with 2.0 is here as well, since the face
// says so by using 2.0's.

#include "faces/dat1_calls.hpp"

#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

extern "C" {
#include <cmocka.h>
}

using namespace coherdma::dapl;

namespace in_1_2 {

using coherdma::dapl::dat1::cno_mask;
using coherdma::dapl::dat1::ep_mask;
using coherdma::dapl::dat1::ia_mask;
using coherdma::dapl::dat1::lmr_mask;
using coherdma::dapl::dat1::provider_mask;
using coherdma::dapl::dat1::rmr_mask;

// By the names of the tables.
#define SAME_AS_2_0(type) using type = ::type
SAME_AS_2_0(DAT_NAMED_ATTR);
SAME_AS_2_0(DAT_CONTEXT);
SAME_AS_2_0(DAT_SRQ_ATTR);
SAME_AS_2_0(DAT_SRQ_PARAM);
SAME_AS_2_0(DAT_PZ_PARAM);
SAME_AS_2_0(DAT_PSP_PARAM);
SAME_AS_2_0(DAT_RSP_PARAM);
SAME_AS_2_0(DAT_CR_PARAM);
SAME_AS_2_0(DAT_RMR_BIND_COMPLETION_EVENT_DATA);
SAME_AS_2_0(DAT_SP_HANDLE);
SAME_AS_2_0(DAT_CONNECTION_EVENT_DATA);
SAME_AS_2_0(DAT_ASYNCH_ERROR_EVENT_DATA);
SAME_AS_2_0(DAT_SOFTWARE_EVENT_DATA);
SAME_AS_2_0(DAT_PROVIDER_INFO);
SAME_AS_2_0(DAT_EVD_PARAM);
SAME_AS_2_0(DAT_OS_WAIT_PROXY_AGENT);
SAME_AS_2_0(DAT_SHARED_MEMORY);
SAME_AS_2_0(DAT_REGION_DESCRIPTION);
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

#if UINTPTR_MAX == UINT64_MAX // the numbers are those of machines with pointers of 64 bits
#    define SIZE(type, size) static_assert(sizeof(type) == (size), #    type);
#    define MEMBER(type, member, offset, size)                                                     \
        static_assert(offsetof(type, member) == (offset) && sizeof(type::member) == (size),        \
                      #type "." #member);
#    include "dat1_layout.inc"
#endif

template <class mask>
constexpr bool is_known(mask given, DAT_UINT64 all) {
    return (static_cast<DAT_UINT64>(given) & ~all) == 0;
}
template <class mask>
constexpr mask of(DAT_UINT64 bits) {
    return static_cast<mask>(bits);
}

#define SAME(name, value) static_assert((name) == (value), #name);
#define MASK(type, function, name, value) static_assert(function(of<type>(value)) == (name), #name);
#define MASK_IA(name, value) MASK(DAT_IA_ATTR_MASK, ia_mask, name, value)
#define MASK_EP(name, value) MASK(DAT_EP_PARAM_MASK, ep_mask, name, value)
#define MASK_LMR(name, value) MASK(DAT_LMR_PARAM_MASK, lmr_mask, name, value)
#define MASK_RMR(name, value) MASK(DAT_RMR_PARAM_MASK, rmr_mask, name, value)
#define MASK_CNO(name, value) MASK(DAT_CNO_PARAM_MASK, cno_mask, name, value)
#define MASK_PROVIDER(name, value) MASK(DAT_PROVIDER_ATTR_MASK, provider_mask, name, value)
// All of 1.2 is known to 2.0, and one bit more is not.
#define ALL(type, function, all, value)                                                            \
    static_assert(is_known(function(of<type>(value)), all) &&                                      \
                  !is_known(function(of<type>((value) + UINT64_C(1) + (value))), all));
#define ALL_IA(name, value) ALL(DAT_IA_ATTR_MASK, ia_mask, DAT_IA_FIELD_ALL, value)
#define ALL_LMR(name, value) ALL(DAT_LMR_PARAM_MASK, lmr_mask, DAT_LMR_FIELD_ALL, value)
#define ALL_RMR(name, value) ALL(DAT_RMR_PARAM_MASK, rmr_mask, DAT_RMR_FIELD_ALL, value)
#define ALL_CNO(name, value) ALL(DAT_CNO_PARAM_MASK, cno_mask, 7, value)
#define ALL_PROVIDER(name, value)                                                                  \
    ALL(DAT_PROVIDER_ATTR_MASK, provider_mask, DAT_PROVIDER_FIELD_ALL, value)
#define ALL_EP(name, value)                                                                        \
    static_assert(is_known(ep_mask(of<DAT_EP_PARAM_MASK>(value)), DAT_EP_FIELD_ALL) &&             \
                  !is_known(ep_mask(0x800), DAT_EP_FIELD_ALL) &&                                   \
                  !is_known(ep_mask(0x80000000), DAT_EP_FIELD_ALL));
#define SRQ_STATE(name, value) static_assert(dat1::srq_state(name) == (value), #name);
#define SUBTYPE(name, value) static_assert(dat1::subtype_of_dat1(name) == (value), #name);
#define NOT_IMPLEMENTED(name, value)                                                               \
    static_assert(dat1::translated(failed(name)) == UINT32_C(value));
#include "dat1_constants.inc"

} // namespace in_1_2

namespace {

// Whole values, as a call returns them: one of each range that has moved, and of what 1.2 lacks.
void failures_in_the_numbers_of_1_2(void **) {
    const struct {
        DAT_RETURN in_2, in_1;
    } all[] = {
        {DAT_SUCCESS, DAT_SUCCESS},
        {DAT_QUEUE_EMPTY, DAT_QUEUE_EMPTY}, // without a class, as it is said
        {wrong_handle(DAT_INVALID_HANDLE_SRQ), 0x80050019},
        {wrong_handle(DAT_INVALID_HANDLE_CSP), 0x80050010},
        {wrong_handle(DAT_INVALID_HANDLE1), 0x8005001a},
        {wrong_argument(1), 0x80060024},
        {wrong_argument(10), 0x8006002d},
        {wrong_state(DAT_INVALID_STATE_SRQ_IN_USE), 0x80070056},
        {wrong_state(DAT_INVALID_STATE_SRQ_SHUTDOWN), 0x80070055},
        {failed(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_READ), 0x800b0057},
        {failed(DAT_PROVIDER_NOT_FOUND, DAT_THREAD_SAFETY_NOT_FOUND), 0x800a0065},
        {DAT_CLASS_WARNING | DAT_LENGTH_ERROR, 0x40080000},
        {failed(DAT_RESERVED_LMR), 0x800c0000},
        {failed(DAT_PORT_IN_USE), 0x80020000},
        {failed(DAT_COMM_NOT_SUPPORTED), 0x80090000},
        {failed(DAT_NOT_IMPLEMENTED), 0xffff0000},
    };
    for (const auto &each : all)
        assert_int_equal(dat1::translated(each.in_2), each.in_1);
}

void arguments_have_another_place(void **) {
    const auto after_third = [](unsigned n) {
        return n > 3 ? n - 1 : n;
    };
    assert_int_equal(dat1::with_argument(wrong_argument(10), after_third), wrong_argument(9));
    assert_int_equal(dat1::with_argument(wrong_argument(3), after_third), wrong_argument(3));
    for (const DAT_RETURN other : {DAT_RETURN{DAT_SUCCESS}, failed(DAT_INVALID_PARAMETER),
                                   wrong_state(DAT_INVALID_STATE_EP_UNCONNECTED)})
        assert_int_equal(dat1::with_argument(other, after_third), other);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(failures_in_the_numbers_of_1_2),
        cmocka_unit_test(arguments_have_another_place),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

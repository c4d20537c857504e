// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dat_strerror: every type and subtype by its name, and two texts whatever it is given.

#include <array>
#include <csetjmp>
#include <cstdarg>
#include <cstdint>
#include <cstring>

#include "registry_version.hpp"

extern "C" {
#include <cmocka.h>
}

namespace {

struct named {
    DAT_RETURN value;
    const char *name;
};

/// A name is that of its enumerator.
#define NAMED(enumerator)                                                                          \
    named {                                                                                        \
        enumerator, #enumerator                                                                    \
    }

constexpr named TYPES[] = {
    NAMED(DAT_SUCCESS),
    NAMED(DAT_ABORT),
    NAMED(DAT_CONN_QUAL_IN_USE),
    NAMED(DAT_INSUFFICIENT_RESOURCES),
    NAMED(DAT_INTERNAL_ERROR),
    NAMED(DAT_INVALID_HANDLE),
    NAMED(DAT_INVALID_PARAMETER),
    NAMED(DAT_INVALID_STATE),
    NAMED(DAT_LENGTH_ERROR),
    NAMED(DAT_MODEL_NOT_SUPPORTED),
    NAMED(DAT_PROVIDER_NOT_FOUND),
    NAMED(DAT_PRIVILEGES_VIOLATION),
    NAMED(DAT_PROTECTION_VIOLATION),
    NAMED(DAT_QUEUE_EMPTY),
    NAMED(DAT_QUEUE_FULL),
    NAMED(DAT_TIMEOUT_EXPIRED),
    NAMED(DAT_PROVIDER_ALREADY_REGISTERED),
    NAMED(DAT_PROVIDER_IN_USE),
    NAMED(DAT_INVALID_ADDRESS),
    NAMED(DAT_INTERRUPTED_CALL),
    NAMED(DAT_CONN_QUAL_UNAVAILABLE),
#ifndef COHERDMA_DAT1
    NAMED(DAT_RESERVED_LMR),
    NAMED(DAT_PORT_IN_USE),
    NAMED(DAT_COMM_NOT_SUPPORTED),
    NAMED(DAT_EXTENSION_BASE),
#endif
    NAMED(DAT_NOT_IMPLEMENTED),
};

// Those of which the number is easily mistaken: the ends of groups, and what is new in 2.0.
constexpr named SUBTYPES[] = {
    NAMED(DAT_SUB_INTERRUPTED),
    NAMED(DAT_RESOURCE_MEMORY),
    NAMED(DAT_RESOURCE_SRQ),
    NAMED(DAT_INVALID_HANDLE_IA),
#ifdef COHERDMA_DAT1
    NAMED(DAT_INVALID_RO_COOKIE),
#else
    NAMED(DAT_INVALID_HANDLE_CSP),
    NAMED(DAT_INVALID_STATE_SRQ_SHUTDOWN),
#endif
    NAMED(DAT_INVALID_HANDLE1),
    NAMED(DAT_INVALID_HANDLE10),
    NAMED(DAT_INVALID_ARG1),
    NAMED(DAT_INVALID_ARG10),
    NAMED(DAT_INVALID_STATE_EP_UNCONNECTED),
    NAMED(DAT_INVALID_STATE_EP_UNCONFTENTATIVE),
    NAMED(DAT_INVALID_STATE_CNO_IN_USE),
    NAMED(DAT_INVALID_STATE_EVD_OPEN),
    NAMED(DAT_INVALID_STATE_EVD_ASYNC),
    NAMED(DAT_INVALID_STATE_IA_IN_USE),
    NAMED(DAT_INVALID_STATE_LMR_FREE),
    NAMED(DAT_INVALID_STATE_PZ_FREE),
    NAMED(DAT_INVALID_STATE_SRQ_OPERATIONAL),
    NAMED(DAT_INVALID_STATE_SRQ_ERROR),
    NAMED(DAT_INVALID_STATE_SRQ_IN_USE),
    NAMED(DAT_PRIVILEGES_READ),
    NAMED(DAT_PROTECTION_RDMA_WRITE),
    NAMED(DAT_INVALID_ADDRESS_UNSUPPORTED),
    NAMED(DAT_INVALID_ADDRESS_MALFORMED),
    NAMED(DAT_NAME_NOT_REGISTERED),
    NAMED(DAT_THREAD_SAFETY_NOT_FOUND),
};

constexpr DAT_RETURN UNKNOWN = DAT_MAKE_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1);
constexpr DAT_RETURN SUBTYPES_END = registry_test::MAJOR == 2 ? 104 : 103;

struct texts {
    const char *major = nullptr, *minor = nullptr;
    DAT_RETURN status;
    explicit texts(DAT_RETURN value)
        : status(dat_strerror(value, &major, &minor)) {
        assert_non_null(major);
        assert_non_null(minor);
    }
};

void names(void **) {
    for (const named &type : TYPES) {
        for (const DAT_RETURN of_class :
             {DAT_CLASS_SUCCESS, DAT_CLASS_WARNING, DAT_CLASS_ERROR, ~DAT_TYPE_MASK & 0xffff0000}) {
            const texts all(of_class | type.value);
            assert_int_equal(all.status, DAT_SUCCESS);
            assert_string_equal(all.major, type.name);
            assert_string_equal(all.minor, "");
        }
    }
    for (const named &subtype : SUBTYPES) {
        const texts all(DAT_MAKE_ERROR(DAT_INVALID_STATE, subtype.value));
        assert_int_equal(all.status, DAT_SUCCESS);
        assert_string_equal(all.minor, subtype.name);
    }
}

void every_subtype_has_a_name_of_its_own(void **) {
    std::array<const char *, SUBTYPES_END> all = {};
    for (DAT_RETURN value = 1; value < SUBTYPES_END; ++value) {
        const texts one(value);
        assert_int_equal(one.status, DAT_SUCCESS);
        assert_memory_equal(one.minor, "DAT_", 4);
        for (DAT_RETURN other = 1; other < value; ++other)
            assert_string_not_equal(one.minor, all[other]);
        all[value] = one.minor;
    }
}

void what_is_not_known(void **) {
    for (const DAT_RETURN type : {0x180000U, 0x200000U, 0xfff0000U, 0x10010000U, 0x3ffe0000U}) {
        const texts all(DAT_MAKE_ERROR(type, DAT_INVALID_ARG1));
        assert_int_equal(all.status, UNKNOWN);
        assert_string_equal(all.major, "unknown type of error");
        assert_string_equal(all.minor, "DAT_INVALID_ARG1");
    }
    for (const DAT_RETURN subtype : {SUBTYPES_END, DAT_RETURN{0xffff}}) {
        const texts all(DAT_MAKE_ERROR(DAT_INVALID_STATE, subtype));
        assert_int_equal(all.status, UNKNOWN);
        assert_string_equal(all.major, "DAT_INVALID_STATE");
        assert_string_equal(all.minor, "unknown subtype of error");
    }
}

void nowhere_to_put_it(void **) {
    const char *text = nullptr;
    assert_int_equal(dat_strerror(DAT_ABORT, nullptr, &text),
                     DAT_MAKE_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2));
    assert_string_equal(text, "");
    assert_int_equal(dat_strerror(DAT_ABORT, &text, nullptr),
                     DAT_MAKE_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3));
    assert_string_equal(text, "DAT_ABORT");
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(every_subtype_has_a_name_of_its_own),
        cmocka_unit_test(what_is_not_known),
        cmocka_unit_test(nowhere_to_put_it),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

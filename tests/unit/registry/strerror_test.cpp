// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dat_strerror: the name of each type and subtype, and two strings for any value.

#include <array>

#include "../cmocka.hpp"
#include "version.hpp"

namespace {

struct error_name {
    DAT_RETURN value;
    const char *name;
};

#define ERROR_NAME(enumerator)                                                                     \
    error_name {                                                                                   \
        enumerator, #enumerator                                                                    \
    }

constexpr error_name TYPES[] = {
    ERROR_NAME(DAT_SUCCESS),
    ERROR_NAME(DAT_ABORT),
    ERROR_NAME(DAT_CONN_QUAL_IN_USE),
    ERROR_NAME(DAT_INSUFFICIENT_RESOURCES),
    ERROR_NAME(DAT_INTERNAL_ERROR),
    ERROR_NAME(DAT_INVALID_HANDLE),
    ERROR_NAME(DAT_INVALID_PARAMETER),
    ERROR_NAME(DAT_INVALID_STATE),
    ERROR_NAME(DAT_LENGTH_ERROR),
    ERROR_NAME(DAT_MODEL_NOT_SUPPORTED),
    ERROR_NAME(DAT_PROVIDER_NOT_FOUND),
    ERROR_NAME(DAT_PRIVILEGES_VIOLATION),
    ERROR_NAME(DAT_PROTECTION_VIOLATION),
    ERROR_NAME(DAT_QUEUE_EMPTY),
    ERROR_NAME(DAT_QUEUE_FULL),
    ERROR_NAME(DAT_TIMEOUT_EXPIRED),
    ERROR_NAME(DAT_PROVIDER_ALREADY_REGISTERED),
    ERROR_NAME(DAT_PROVIDER_IN_USE),
    ERROR_NAME(DAT_INVALID_ADDRESS),
    ERROR_NAME(DAT_INTERRUPTED_CALL),
    ERROR_NAME(DAT_CONN_QUAL_UNAVAILABLE),
#ifndef COHERDMA_DAT1
    ERROR_NAME(DAT_RESERVED_LMR),
    ERROR_NAME(DAT_PORT_IN_USE),
    ERROR_NAME(DAT_COMM_NOT_SUPPORTED),
    ERROR_NAME(DAT_EXTENSION_BASE),
#endif
    ERROR_NAME(DAT_NOT_IMPLEMENTED),
};

// Subtypes at the ends of groups, and those that only one version has.
constexpr error_name SUBTYPES[] = {
    ERROR_NAME(DAT_SUB_INTERRUPTED),
    ERROR_NAME(DAT_RESOURCE_MEMORY),
    ERROR_NAME(DAT_RESOURCE_SRQ),
    ERROR_NAME(DAT_INVALID_HANDLE_IA),
#ifdef COHERDMA_DAT1
    ERROR_NAME(DAT_INVALID_RO_COOKIE),
#else
    ERROR_NAME(DAT_INVALID_HANDLE_CSP),
    ERROR_NAME(DAT_INVALID_STATE_SRQ_SHUTDOWN),
#endif
    ERROR_NAME(DAT_INVALID_HANDLE1),
    ERROR_NAME(DAT_INVALID_HANDLE10),
    ERROR_NAME(DAT_INVALID_ARG1),
    ERROR_NAME(DAT_INVALID_ARG10),
    ERROR_NAME(DAT_INVALID_STATE_EP_UNCONNECTED),
    ERROR_NAME(DAT_INVALID_STATE_EP_UNCONFTENTATIVE),
    ERROR_NAME(DAT_INVALID_STATE_CNO_IN_USE),
    ERROR_NAME(DAT_INVALID_STATE_EVD_OPEN),
    ERROR_NAME(DAT_INVALID_STATE_EVD_ASYNC),
    ERROR_NAME(DAT_INVALID_STATE_IA_IN_USE),
    ERROR_NAME(DAT_INVALID_STATE_LMR_FREE),
    ERROR_NAME(DAT_INVALID_STATE_PZ_FREE),
    ERROR_NAME(DAT_INVALID_STATE_SRQ_OPERATIONAL),
    ERROR_NAME(DAT_INVALID_STATE_SRQ_ERROR),
    ERROR_NAME(DAT_INVALID_STATE_SRQ_IN_USE),
    ERROR_NAME(DAT_PRIVILEGES_READ),
    ERROR_NAME(DAT_PROTECTION_RDMA_WRITE),
    ERROR_NAME(DAT_INVALID_ADDRESS_UNSUPPORTED),
    ERROR_NAME(DAT_INVALID_ADDRESS_MALFORMED),
    ERROR_NAME(DAT_NAME_NOT_REGISTERED),
    ERROR_NAME(DAT_THREAD_SAFETY_NOT_FOUND),
};

constexpr DAT_RETURN UNKNOWN = DAT_MAKE_ERROR(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1);
constexpr DAT_RETURN SUBTYPES_END = registry_test::MAJOR == 2 ? 104 : 103;

struct strerror_result {
    const char *major = nullptr, *minor = nullptr;
    DAT_RETURN status;
    explicit strerror_result(DAT_RETURN value)
        : status(dat_strerror(value, &major, &minor)) {
        assert_non_null(major);
        assert_non_null(minor);
    }
};

/// dat_strerror ignores the class bits of a return value.
void types_and_subtypes_have_names(void **) {
    for (const error_name &type : TYPES) {
        for (const DAT_RETURN class_bits :
             {DAT_CLASS_SUCCESS, DAT_CLASS_WARNING, DAT_CLASS_ERROR, ~DAT_TYPE_MASK & 0xffff0000}) {
            const strerror_result result(class_bits | type.value);
            assert_int_equal(result.status, DAT_SUCCESS);
            assert_string_equal(result.major, type.name);
            assert_string_equal(result.minor, "");
        }
    }
    for (const error_name &subtype : SUBTYPES) {
        const strerror_result result(DAT_MAKE_ERROR(DAT_INVALID_STATE, subtype.value));
        assert_int_equal(result.status, DAT_SUCCESS);
        assert_string_equal(result.minor, subtype.name);
    }
}

void subtype_names_are_unique(void **) {
    std::array<const char *, SUBTYPES_END> names = {};
    for (DAT_RETURN value = 1; value < SUBTYPES_END; ++value) {
        const strerror_result result(value);
        assert_int_equal(result.status, DAT_SUCCESS);
        assert_memory_equal(result.minor, "DAT_", 4);
        for (DAT_RETURN other = 1; other < value; ++other)
            assert_string_not_equal(result.minor, names[other]);
        names[value] = result.minor;
    }
}

void unknown_values_have_text(void **) {
    for (const DAT_RETURN type : {0x180000U, 0x200000U, 0xfff0000U, 0x10010000U, 0x3ffe0000U}) {
        const strerror_result result(DAT_MAKE_ERROR(type, DAT_INVALID_ARG1));
        assert_int_equal(result.status, UNKNOWN);
        assert_string_equal(result.major, "unknown error type");
        assert_string_equal(result.minor, "DAT_INVALID_ARG1");
    }
    for (const DAT_RETURN subtype : {SUBTYPES_END, DAT_RETURN{0xffff}}) {
        const strerror_result result(DAT_MAKE_ERROR(DAT_INVALID_STATE, subtype));
        assert_int_equal(result.status, UNKNOWN);
        assert_string_equal(result.major, "DAT_INVALID_STATE");
        assert_string_equal(result.minor, "unknown error subtype");
    }
}

void null_result_pointers_rejected(void **) {
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
        cmocka_unit_test(types_and_subtypes_have_names),
        cmocka_unit_test(subtype_names_are_unique),
        cmocka_unit_test(unknown_values_have_text),
        cmocka_unit_test(null_result_pointers_rejected),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

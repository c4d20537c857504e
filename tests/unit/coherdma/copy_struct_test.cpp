// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Structs of programs that were compiled with an older or newer header than the library.

#include "../cmocka.hpp"
#include "api/copy_struct.hpp"

#include <coherdma/coherdma.h>
#include <cstdint>
#include <cstring>

namespace {

/// A struct of the library. In the first version it had only the first two members.
struct sample {
    std::uint32_t first, second;
    std::uint64_t added;
};

/// Of a program with a newer header.
struct newer_sample {
    sample known;
    std::uint32_t unknown[3];
    std::uint32_t after = 0x55555555; ///< not part of the struct
};
constexpr std::size_t newer_size = offsetof(newer_sample, after);

} // namespace

template <>
inline constexpr std::size_t coherdma::api::size_in_first_version<sample> = 8;

namespace {

using coherdma::api::copy_in;
using coherdma::api::copy_out;

constexpr sample values = {1, 2, 3};

sample make_filled_sample() {
    sample result;
    std::memset(&result, 0xEE, sizeof result);
    return result;
}

void assert_error_contains(const char *text) {
    if (!std::strstr(coherdma_error(), text))
        fail_msg("coherdma_error() does not say '%s' but '%s'", text, coherdma_error());
}

void output_of_same_version_is_filled(void **) {
    sample output = make_filled_sample();
    assert_int_equal(copy_out(values, &output, sizeof output), 0);
    assert_memory_equal(&output, &values, sizeof values);
}

void output_of_older_program_is_filled_to_its_size(void **) {
    sample output = make_filled_sample();
    assert_int_equal(copy_out(values, &output, 8), 0);
    assert_int_equal(output.first, 1);
    assert_int_equal(output.second, 2);
    assert_true(output.added == 0xEEEEEEEEEEEEEEEE);
}

void output_of_newer_program_is_zeroed_beyond_library(void **) {
    newer_sample output;
    output.known = make_filled_sample();
    std::memset(output.unknown, 0xEE, sizeof output.unknown);
    assert_int_equal(copy_out(values, &output.known, newer_size), 0);
    assert_memory_equal(&output.known, &values, sizeof values);
    for (const std::uint32_t word : output.unknown)
        assert_int_equal(word, 0);
    assert_int_equal(output.after, 0x55555555);
}

void output_smaller_than_first_version_is_refused(void **) {
    const sample untouched = make_filled_sample();
    sample output = untouched;
    for (const std::size_t size : {std::size_t{0}, std::size_t{4}, std::size_t{7}}) {
        assert_int_equal(copy_out(values, &output, size), EINVAL);
        assert_error_contains("is less than 8");
    }
    assert_memory_equal(&output, &untouched, sizeof untouched);
    assert_int_equal(copy_out<sample>(values, nullptr, sizeof(sample)), EINVAL);
}

void input_of_same_version_is_read(void **) {
    sample input = {};
    assert_int_equal(copy_in(&values, sizeof values, input), 0);
    assert_memory_equal(&input, &values, sizeof values);
}

void input_of_older_program_leaves_other_members_zero(void **) {
    sample input = {};
    assert_int_equal(copy_in(&values, 8, input), 0);
    assert_int_equal(input.second, 2);
    assert_true(input.added == 0);
}

void input_of_newer_program_must_be_zero_beyond_library(void **) {
    newer_sample newer = {};
    newer.known = values;
    newer.after = 1; // beyond the size
    sample input = {};
    assert_int_equal(copy_in(&newer.known, newer_size, input), 0);
    assert_memory_equal(&input, &values, sizeof values);
    auto *const unknown = reinterpret_cast<unsigned char *>(newer.unknown);
    for (std::size_t i = 0; i < sizeof newer.unknown; ++i) {
        unknown[i] = 1;
        input = {};
        assert_int_equal(copy_in(&newer.known, newer_size, input), E2BIG);
        assert_error_contains("unknown to this version");
        assert_int_equal(input.first, 0);
        unknown[i] = 0;
    }
}

void input_smaller_than_first_version_is_refused(void **) {
    sample input = {};
    for (const std::size_t size : {std::size_t{0}, std::size_t{4}, std::size_t{7}}) {
        assert_int_equal(copy_in(&values, size, input), EINVAL);
        assert_error_contains("is less than 8");
    }
    assert_int_equal(copy_in<sample>(nullptr, sizeof(sample), input), EINVAL);
    assert_int_equal(input.first, 0);
}

} // namespace

int main() {
    const CMUnitTest tests[] = {
        cmocka_unit_test(output_of_same_version_is_filled),
        cmocka_unit_test(output_of_older_program_is_filled_to_its_size),
        cmocka_unit_test(output_of_newer_program_is_zeroed_beyond_library),
        cmocka_unit_test(output_smaller_than_first_version_is_refused),
        cmocka_unit_test(input_of_same_version_is_read),
        cmocka_unit_test(input_of_older_program_leaves_other_members_zero),
        cmocka_unit_test(input_of_newer_program_must_be_zero_beyond_library),
        cmocka_unit_test(input_smaller_than_first_version_is_refused),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}

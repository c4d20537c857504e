// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// cmocka's assertions, which the fixtures of unit tests use: one that fails is a failure of the
// schedule.

#include "schedule.hpp"

#include <cinttypes>
#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>

extern "C" {
#include <cmocka.h>
}
#undef fail

namespace {

void require(bool condition, const char *file, int line, const std::string &text) {
    if (!condition)
        schedule::require(false, (text + " (" + file + ":" + std::to_string(line) + ")").c_str());
}

} // namespace

extern "C" {

void _assert_int_equal(LargestIntegralType a, LargestIntegralType b, const char *file, int line) {
    char text[64];
    std::snprintf(text, sizeof text, "%#" PRIxMAX " != %#" PRIxMAX, std::uintmax_t{a},
                  std::uintmax_t{b});
    require(a == b, file, line, text);
}

void _assert_true(LargestIntegralType result, const char *expression, const char *file, int line) {
    require(result != 0, file, line, expression);
}

void print_error(const char *format, ...) {
    va_list args;
    va_start(args, format);
    std::vfprintf(stderr, format, args);
    va_end(args);
}
}

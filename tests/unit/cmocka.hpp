// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// cmocka.h for C++, with the headers that it needs. Its macros fail() and skip() would replace
// members of these names in headers included later: they are functions here.
#pragma once

#include <csetjmp>
#include <cstdarg>
#include <cstddef>
#include <cstdint>

extern "C" {
#include <cmocka.h>
}

#undef fail
#undef skip

[[noreturn]] inline void fail(const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    _fail(file, line);
    __builtin_unreachable();
}

inline void skip(const char *file = __builtin_FILE(), int line = __builtin_LINE()) {
    _skip(file, line);
}

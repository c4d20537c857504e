// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Included first in each file that is compiled for the scheduler: the compiler instruments no calls
// of these functions, so they get a definition in instrumentation.cpp. The labels are Clang's.
#pragma once

#undef _FORTIFY_SOURCE // it calls others
#include <cstring>

extern "C" {
void *memcpy(void *, const void *, std::size_t) noexcept __asm__("__tsan_memcpy");
void *memmove(void *, const void *, std::size_t) noexcept __asm__("__tsan_memmove");
void *memset(void *, int, std::size_t) noexcept __asm__("__tsan_memset");
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Helpers of the CPU files.
#pragma once

#include "lines.hpp"

#include <cstdint>

namespace coherdma::cache {

/// cache_ops::writeback or writeback_invalidate with one instruction per line.
template <void (*instruction)(std::uintptr_t) noexcept>
void per_line(const range *ranges, std::size_t count, std::size_t line_size) noexcept {
    for_each_line(ranges, count, line_size, [](std::uintptr_t line) { instruction(line); });
}

/// cache_ops::writeback and writeback_invalidate of ordering_ops().
inline void touch_no_line(const range *, std::size_t, std::size_t) noexcept {}

/// A fence where the CPU orders the accesses itself.
inline void compiler_barrier() noexcept {
    asm volatile("" ::: "memory");
}

/// cache_ops::is_reported of instructions that every CPU of the architecture has.
inline bool always_reported() noexcept {
    return true;
}

/// size if it is a power of two, as for_each_line() requires, else 0.
constexpr std::size_t valid_line_size(std::size_t size) noexcept {
    return (size & (size - 1)) == 0 ? size : 0;
}

} // namespace coherdma::cache

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the files of the CPUs share.
#pragma once

#include "lines.hpp"

#include <cstdint>

namespace coherdma::cache {

/// clean or flush by one instruction per line.
template <void (*instruction)(std::uintptr_t) noexcept>
void every(const range *ranges, std::size_t count, std::size_t line) noexcept {
    each_line(ranges, count, line, [](std::uintptr_t at) { instruction(at); });
}

/// clean and flush of a path that touches no line.
inline void no_line(const range *, std::size_t, std::size_t) noexcept {}

/// A fence where the CPU keeps the order by itself: only the compiler is held.
inline void nothing() noexcept {
    asm volatile("" ::: "memory");
}

/// claimed of a path that every CPU of its kind has.
inline bool always() noexcept {
    return true;
}

/// A size of a line that the loops can work with, or 0.
constexpr std::size_t power_of_two(std::size_t size) noexcept {
    return (size & (size - 1)) == 0 ? size : 0;
}

} // namespace coherdma::cache

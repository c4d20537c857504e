// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Helpers of the CPU files.
#pragma once

#include "cache.hpp"
#include "lines.hpp"

#include <algorithm>
#include <cstdint>

namespace coherdma::cache {

/// cache_ops::writeback or writeback_invalidate with one instruction per line.
template <void (*instruction)(std::uintptr_t) noexcept>
void per_line(const range *ranges, std::size_t count, std::size_t line_size) noexcept {
    for_each_line(ranges, count, line_size,
                  [](std::uintptr_t line, const range &) { instruction(line); });
}

/// The same, with a call of load before the first line of each page: with the address of a byte of
/// the ranges on that page.
template <void (*instruction)(std::uintptr_t) noexcept, void (*load)(std::uintptr_t) noexcept>
void per_line_loaded(const range *ranges, std::size_t count, std::size_t line_size) noexcept {
    constexpr std::uintptr_t MIN_PAGE_SIZE = 4096;
    std::uintptr_t loaded_page = 1; // no page's address
    for_each_line(ranges, count, line_size, [&](std::uintptr_t line, const range &range) {
        const std::uintptr_t page = line & ~(MIN_PAGE_SIZE - 1);
        if (page != loaded_page)
            load(std::max(line, static_cast<std::uintptr_t>(range.addr)));
        loaded_page = page;
        instruction(line);
    });
}

/// A fence where the CPU orders the accesses itself.
inline void compiler_barrier() noexcept {
    asm volatile("" ::: "memory");
}

/// cache_ops::is_reported of instructions that every CPU of the architecture has.
inline bool always_reported() noexcept {
    return true;
}

inline void touch_no_line(const range *, std::size_t, std::size_t) noexcept {}

/// ordering_ops() with these fences. They come after the ranges: no line is touched, so they order
/// all accesses before the call, and those between the additions to a batch.
constexpr cache_ops only_order(void (*before_read)() noexcept,
                               void (*around_write)() noexcept) noexcept {
    return {
        .name = "",
        .fence_before_writeback = compiler_barrier,
        .writeback = touch_no_line,
        .fence_after_writeback = before_read,
        .fence_before_invalidate = compiler_barrier,
        .writeback_invalidate = touch_no_line,
        .fence_after_invalidate = around_write,
        .is_reported = always_reported,
    };
}

/// size if it is a power of two, as for_each_line() requires, else 0.
constexpr std::size_t valid_line_size(std::size_t size) noexcept {
    return (size & (size - 1)) == 0 ? size : 0;
}

} // namespace coherdma::cache

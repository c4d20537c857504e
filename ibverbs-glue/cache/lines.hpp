// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <cstddef>
#include <cstdint>

namespace coherdma::cache {

/// Memory of the caller. Same layout as coherdma_range, so that an array of these is read in place.
/// addr + length may be the end of the address space (2^64), but no more.
struct [[gnu::may_alias]] range {
    std::uintptr_t addr;
    std::size_t length;
};

/// Calls function(line_addr, range) with the address of each cache line that the ranges touch; only
/// once for a line that ends one range and begins the next. line_size must be a power of two.
///
/// Not unrolled and without prefetch: measured, unrolling gains nothing and prefetching is slower.
template <typename Function>
inline void for_each_line(const range *ranges, std::size_t count, std::size_t line_size,
                          Function function) noexcept {
    const std::uintptr_t line_mask = ~(std::uintptr_t{line_size} - 1);
    std::uintptr_t previous_line = 1; // the last line of the previous range; 1 is no line's address
    for (std::size_t i = 0; i < count; ++i) {
        const range &range = ranges[i];
        if (range.length == 0)
            continue;
        std::uintptr_t line = range.addr & line_mask;
        const std::uintptr_t last_line = (range.addr + (range.length - 1)) & line_mask;
        if (line == previous_line) {
            if (line == last_line)
                continue;
            line += line_size;
        }
        previous_line = last_line;
        // Compares with the last line, not with the end, which may be 2^64.
        for (;; line += line_size) {
            function(line, range);
            if (line == last_line)
                break;
        }
    }
}

} // namespace coherdma::cache

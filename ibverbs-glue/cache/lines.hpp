// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <cstddef>
#include <cstdint>

namespace coherdma::cache {

/// Memory of the caller's, in the layout of ibv_sge, so that an array of those is read in place.
/// The last byte is an address, too: begin + length may be 2^64, no more.
struct [[gnu::may_alias]] range {
    std::uint64_t begin;
    std::uint32_t length;
    std::uint32_t key = 0; ///< none of our business
};

/// Calls operation(address) for every cache line that the ranges touch; for a line that ends one
/// range and begins the next, once. line is a power of two.
///
/// Neither unrolled nor prefetching: measured, the one gains nothing and the other costs.
template <typename Operation>
inline void each_line(const range *ranges, std::size_t count, std::size_t line,
                      Operation operation) noexcept {
    const std::uintptr_t mask = ~(std::uintptr_t{line} - 1);
    std::uintptr_t done = 1; // the line before; 1 is none
    for (std::size_t place = 0; place < count; ++place) {
        const range &each = ranges[place];
        if (each.length == 0)
            continue;
        const auto begin = static_cast<std::uintptr_t>(each.begin);
        std::uintptr_t at = begin & mask;
        const std::uintptr_t last = (begin + (each.length - 1)) & mask;
        if (at == done) {
            if (at == last)
                continue;
            at += line;
        }
        done = last;
        // Asks for the last line rather than the end, which may be beyond the last address.
        for (;; at += line) {
            operation(at);
            if (at == last)
                break;
        }
    }
}

} // namespace coherdma::cache

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <atomic>
#include <cstdint>

namespace coherdma::check {

/// Where the program's registered memory is, or was. It only grows. Most memory that is freed is
/// elsewhere: a look at this costs no lock.
struct registered_bounds {
    std::atomic<std::uintptr_t> begin = UINTPTR_MAX, end = 0;

    void add(std::uintptr_t range_begin, std::uintptr_t range_end) noexcept {
        // Relaxed: the thread that frees memory of a request has the request from a thread that
        // registered the memory before.
        for (std::uintptr_t old = begin.load(std::memory_order_relaxed);
             range_begin < old &&
             !begin.compare_exchange_weak(old, range_begin, std::memory_order_relaxed);) {
        }
        for (std::uintptr_t old = end.load(std::memory_order_relaxed);
             range_end > old &&
             !end.compare_exchange_weak(old, range_end, std::memory_order_relaxed);) {
        }
    }
    [[nodiscard]] bool overlap(std::uintptr_t range_begin,
                               std::uintptr_t range_end) const noexcept {
        return range_begin < end.load(std::memory_order_relaxed) &&
               begin.load(std::memory_order_relaxed) < range_end;
    }
};

} // namespace coherdma::check

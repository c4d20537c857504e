// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// When the program's calls were made: by a counter of the CPU. A clock is a system call in
// user-mode Linux, which takes longer (5 us) than what else is done at a post.
#pragma once

#include "reports/stack_trace.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>

namespace coherdma::check {

/// 0: not known.
using tick_count = std::uint64_t;

inline tick_count read_ticks() noexcept {
#if defined __x86_64__
    return __builtin_ia32_rdtsc();
#elif defined __aarch64__
    tick_count ticks = 0;
    asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
    return ticks;
#else
    return static_cast<tick_count>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

/// Ticks as seconds since a point in time.
struct tick_scale {
    tick_count start = 0;
    double ns_per_tick = 0;

    /// In whole nanoseconds; 0 for what was before the start.
    [[nodiscard]] double seconds_at(tick_count ticks) const noexcept {
        const auto since_start = static_cast<std::int64_t>(ticks - start);
        return std::round(static_cast<double>(std::max<std::int64_t>(since_start, 0)) *
                          ns_per_tick) /
               1e9;
    }
};

class event_clock {
  public:
    /// Since the clock was made. Times of one scale can be compared: another one differs by what it
    /// takes to read a clock.
    [[nodiscard]] tick_scale scale() const noexcept {
        const tick_count elapsed = read_ticks() - start_ticks_;
        const std::chrono::duration<double, std::nano> ns = clock::now() - start_;
        return {.start = start_ticks_,
                .ns_per_tick = elapsed != 0 ? ns.count() / static_cast<double>(elapsed) : 0};
    }

  private:
    using clock = std::chrono::steady_clock;
    const clock::time_point start_ = clock::now();
    const tick_count start_ticks_ = read_ticks();
};

/// Of a call, with its time.
struct stack_trace : reports::stack_trace {
    tick_count time = 0;

    static stack_trace capture_all() noexcept {
        return {reports::stack_trace::capture_all(), read_ticks()};
    }
};

} // namespace coherdma::check

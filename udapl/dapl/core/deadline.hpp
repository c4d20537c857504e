// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A DAT timeout (microseconds, or DAT_TIMEOUT_INFINITE) as a point of time.
#pragma once

#include <cstdint>
#include <ctime>
#include <dat2/udat.h>

namespace coherdma::dapl {

class dat_deadline {
  public:
    explicit dat_deadline(DAT_TIMEOUT timeout_us) noexcept
        : infinite(timeout_us == timeout_infinite) {
        if (!infinite)
            expiry_ns = now_ns() + std::int64_t{timeout_us} * 1000;
    }
    bool has_passed() const noexcept { return !infinite && now_ns() >= expiry_ns; }

    /// For ppoll; nullptr: infinite. Valid until the next call.
    const timespec *remaining() noexcept {
        if (infinite)
            return nullptr;
        const std::int64_t wait_ns = expiry_ns - now_ns();
        wait_time.tv_sec = wait_ns > 0 ? static_cast<time_t>(wait_ns / ns_per_second) : 0;
        wait_time.tv_nsec = wait_ns > 0 ? static_cast<long>(wait_ns % ns_per_second) : 0;
        return &wait_time;
    }

    static std::int64_t now_ns() noexcept {
        timespec time;
        clock_gettime(CLOCK_MONOTONIC, &time);
        return time.tv_sec * ns_per_second + time.tv_nsec;
    }

  private:
    static constexpr std::int64_t ns_per_second = 1000000000;
    static constexpr DAT_TIMEOUT timeout_infinite = 0xffffffff; // DAT_TIMEOUT_INFINITE

    bool infinite;
    std::int64_t expiry_ns = 0;
    timespec wait_time = {};
};

} // namespace coherdma::dapl

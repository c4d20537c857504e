// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Until when somebody waits: DAT's timeouts are microseconds, and there is one for ever.
#pragma once

#include <cstdint>
#include <ctime>
#include <dat2/udat.h>

namespace coherdma::dapl {

class deadline {
  public:
    explicit deadline(DAT_TIMEOUT microseconds) noexcept
        : endless(microseconds == forever) {
        if (!endless)
            at = now() + std::int64_t{microseconds} * 1000;
    }
    bool passed() const noexcept { return !endless && now() >= at; }

    /// For ppoll and its like: nullptr if there is no end. Good until it is asked again.
    const timespec *left() noexcept {
        if (endless)
            return nullptr;
        const std::int64_t wait = at - now();
        rest.tv_sec = wait > 0 ? static_cast<time_t>(wait / second) : 0;
        rest.tv_nsec = wait > 0 ? static_cast<long>(wait % second) : 0;
        return &rest;
    }

    static std::int64_t now() noexcept {
        timespec time;
        clock_gettime(CLOCK_MONOTONIC, &time);
        return time.tv_sec * second + time.tv_nsec;
    }

  private:
    static constexpr std::int64_t second = 1000000000;
    static constexpr DAT_TIMEOUT forever = 0xffffffff;

    bool endless;
    std::int64_t at = 0;
    timespec rest = {};
};

} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A mutex in memory shared by processes that may die at any moment.
#pragma once

#include <chrono>
#include <pthread.h>

namespace coherdma::emulation {

/// For calls that wait until then.
timespec to_timespec(std::chrono::steady_clock::time_point) noexcept;

/// Initializes a process-shared robust mutex: if its owner dies, the next process gets it.
void init_robust_mutex(pthread_mutex_t &) noexcept;

class robust_lock_guard {
  public:
    explicit robust_lock_guard(pthread_mutex_t &) noexcept;
    /// Gives up after the timeout: the process that has it may be stopped.
    robust_lock_guard(pthread_mutex_t &, std::chrono::milliseconds timeout) noexcept;
    ~robust_lock_guard();
    robust_lock_guard(const robust_lock_guard &) = delete;
    robust_lock_guard &operator=(const robust_lock_guard &) = delete;
    /// False: it is not locked: the mutex is not usable any more, or the time is over.
    explicit operator bool() const noexcept { return is_locked_; }

  private:
    bool is_locked_by(int error) noexcept;

    pthread_mutex_t &mutex_;
    bool is_locked_;
};

} // namespace coherdma::emulation

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A mutex in memory shared by processes that may die at any moment.
#pragma once

#include <pthread.h>

namespace coherdma::emulation {

/// Initializes a process-shared robust mutex: if its owner dies, the next process gets it.
void init_robust_mutex(pthread_mutex_t &) noexcept;

class robust_lock_guard {
  public:
    explicit robust_lock_guard(pthread_mutex_t &) noexcept;
    ~robust_lock_guard();
    robust_lock_guard(const robust_lock_guard &) = delete;
    robust_lock_guard &operator=(const robust_lock_guard &) = delete;
    /// False: the mutex is not usable any more, and not locked.
    explicit operator bool() const noexcept { return is_locked_; }

  private:
    pthread_mutex_t &mutex_;
    bool is_locked_;
};

} // namespace coherdma::emulation

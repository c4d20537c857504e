// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// For memory that several processes have, any of which may be gone at any moment.
#pragma once

#include <cstdint>
#include <pthread.h>

namespace coherdma::emulation {

/// Makes a lock there that works between processes, and is left to the next by who dies with it.
void init_lock(pthread_mutex_t &) noexcept;

class locked {
  public:
    explicit locked(pthread_mutex_t &) noexcept;
    ~locked();
    locked(const locked &) = delete;
    locked &operator=(const locked &) = delete;
    /// False: it is not a lock any more.
    explicit operator bool() const noexcept { return has_; }

  private:
    pthread_mutex_t &one_;
    bool has_;
};

/// When a process began, in the ticks of the kernel, for its number may come again; 0: there is no
/// such process.
std::uint64_t begin_of(std::int32_t process) noexcept;

} // namespace coherdma::emulation

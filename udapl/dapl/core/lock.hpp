// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A futex-style mutex of one word (BasicLockable). Uncontended lock and unlock cost one atomic
// instruction and one branch each: posting takes it once per request. A contended lock sleeps,
// since the holder may be in a system call (a doorbell).
//
// LOCKED: held. WAITERS: a thread sleeps or is about to. unlock clears LOCKED; if WAITERS is still
// set, the unlocking thread wakes one waiter.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace coherdma::dapl {

class mutex {
  public:
    // acquire: sees what the last holder wrote.
    bool try_lock() noexcept {
        return (state.fetch_or(locked, std::memory_order_acquire) & locked) == 0;
    }
    void lock() noexcept {
        if (!try_lock()) [[unlikely]]
            lock_slow();
    }
    // release: the next holder sees what this one wrote; the bits that waiters set in between
    // continue the release sequence.
    void unlock() noexcept {
        if (state.fetch_sub(locked, std::memory_order_release) != locked) [[unlikely]]
            wake_waiter();
    }

  private:
    [[gnu::cold]] void wake_waiter() noexcept;
    [[gnu::cold]] void lock_slow() noexcept;

    enum : std::uint32_t { locked = 1, waiters = 2 };
    std::atomic<std::uint32_t> state = 0;
};

} // namespace coherdma::dapl

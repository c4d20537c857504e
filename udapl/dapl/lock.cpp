// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "lock.hpp"

namespace coherdma::dapl {

// Whoever sleeps has left "awaited" behind, so the holder knows to wake one. That one takes the
// lock as awaited, too: there may be more, and one needless call is the price of not counting.
void lock::lock_slow() noexcept {
    while ((state.exchange(taken | awaited, std::memory_order_acquire) & taken) != 0)
        state.wait(taken | awaited, std::memory_order_relaxed);
}

// The lock is free already. Whoever takes "awaited" away wakes one; if another thread has taken the
// lock meanwhile, it finds "awaited" when it gives it back.
//
// seq_cst: GCC 12's notify_one first loads, likewise, how many sleep. On a weakly ordered CPU that
// load would else be free to go before, and miss somebody who has counted himself since, looked at
// the lock, and found it taken still.
void lock::wake() noexcept {
    std::uint32_t left = awaited;
    if (state.compare_exchange_strong(left, 0, std::memory_order_seq_cst,
                                      std::memory_order_relaxed))
        state.notify_one();
}

} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "lock.hpp"

namespace coherdma::dapl {

// A waiter sets WAITERS, so the holder wakes one on unlock. The woken thread takes the lock with
// WAITERS set, because others may still sleep; that costs at most one needless wake-up.
void mutex::lock_slow() noexcept {
    while ((state.exchange(locked | waiters, std::memory_order_acquire) & locked) != 0)
        state.wait(locked | waiters, std::memory_order_relaxed);
}

// The mutex is already free. The thread that clears WAITERS wakes one waiter; if another thread has
// locked it meanwhile, that thread finds WAITERS when it unlocks.
//
// seq_cst: GCC 12's notify_one first loads, with seq_cst, the number of sleepers. On a weakly
// ordered CPU that load could otherwise precede this exchange and miss a thread that has counted
// itself since and found the mutex still locked.
void mutex::wake_waiter() noexcept {
    std::uint32_t expected = waiters;
    if (state.compare_exchange_strong(expected, 0, std::memory_order_seq_cst,
                                      std::memory_order_relaxed))
        state.notify_one();
}

} // namespace coherdma::dapl

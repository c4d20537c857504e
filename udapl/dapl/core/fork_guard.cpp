// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "fork_guard.hpp"

#include <atomic>
#include <chrono>
#include <new>
#include <shared_mutex>
#include <thread>

namespace coherdma::dapl {

namespace {

/// Of each type of call. A call that takes longer than max_wait_ms waits in the kernel
/// (rdma_destroy_id on iWARP, for ten seconds) or for the event thread, and has no lock meanwhile.
struct {
    const int max_wait_ms;
    std::shared_timed_mutex mutex = {}; ///< glibc's prefers readers
    bool locked = false;                ///< by the thread that forks
} locks[] = {{.max_wait_ms = 1000}, {.max_wait_ms = 50}};

std::atomic<bool> fork_waits = false;

} // namespace

/// Lets a fork that waits go first, as other readers may follow each other; not for long, as the
/// caller may hold a lock for which a reader waits.
fork_guard::fork_guard(call_type call) noexcept
    : type(call) {
    constexpr int max_polls = 100;
    for (int polls = 0; num_guards == 0 && fork_waits && polls != max_polls; ++polls)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ++num_guards;
    locks[type].mutex.lock_shared();
}

fork_guard::~fork_guard() {
    locks[type].mutex.unlock_shared();
    --num_guards;
}

void fork_guard::atfork_prepare() noexcept {
    fork_waits = true;
    for (auto &lock : locks)
        lock.locked = lock.mutex.try_lock_for(std::chrono::milliseconds(lock.max_wait_ms));
    fork_waits = false;
}

void fork_guard::atfork_parent() noexcept {
    for (auto &lock : locks)
        if (lock.locked)
            lock.mutex.unlock();
}

/// A mutex has its owner's thread ID, which differs in the child, and readers that are not there.
void fork_guard::atfork_child() noexcept {
    for (auto &lock : locks)
        new (&lock.mutex) std::shared_timed_mutex;
}

} // namespace coherdma::dapl

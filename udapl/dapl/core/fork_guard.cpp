// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "fork_guard.hpp"

#include <chrono>
#include <new>
#include <shared_mutex>

namespace coherdma::dapl {

namespace {

// A call that takes longer waits in the kernel (rdma_destroy_id on iWARP, for ten seconds) or for
// the event thread, and has no lock meanwhile: the fork need not wait.
constexpr std::chrono::seconds max_wait{1};

struct {
    /// glibc's prefers readers: one that waits for the event thread, which reads, too, goes on
    /// although a fork waits.
    std::shared_timed_mutex mutex;
    bool locked = false; ///< by the thread that forks
} state;

} // namespace

fork_guard::fork_guard() noexcept {
    state.mutex.lock_shared();
}

fork_guard::~fork_guard() {
    state.mutex.unlock_shared();
}

void fork_guard::atfork_prepare() noexcept {
    state.locked = state.mutex.try_lock_for(max_wait);
}

void fork_guard::atfork_parent() noexcept {
    if (state.locked)
        state.mutex.unlock();
}

/// The mutex has the thread ID of its owner, which differs in the child, and readers that are not
/// there.
void fork_guard::atfork_child() noexcept {
    new (&state.mutex) std::shared_timed_mutex;
}

} // namespace coherdma::dapl

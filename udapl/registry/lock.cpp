// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "lock.hpp"

#include "handles/ia_table.hpp"

#include <atomic>
#include <pthread.h>
#include <unistd.h>

namespace coherdma::registry {
namespace {

pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
std::atomic<unsigned> forks_begun, forks_ended;

void atfork_prepare() noexcept {
    ++forks_begun;
    pthread_mutex_lock(&mutex);
}
void atfork_parent() noexcept {
    pthread_mutex_unlock(&mutex);
    ++forks_ended;
}
/// The mutex has the thread ID of its owner, which differs in the child: it cannot be unlocked
/// there.
void atfork_child() noexcept {
    forget_ias();
    forks_ended = forks_begun.load();
    mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
}

/// When the library is loaded: a fork that begins before this call would not call the handlers.
[[gnu::constructor]] void register_atfork() noexcept {
    pthread_atfork(atfork_prepare, atfork_parent, atfork_child);
}

} // namespace

void wait_for_forks() noexcept {
    constexpr useconds_t poll_interval_us = 100;
    constexpr int max_polls = 20000; // two seconds: our Provider's handlers take one at most
    const unsigned begun = forks_begun;
    for (int polls = 0; static_cast<int>(forks_ended - begun) < 0 && polls != max_polls; ++polls)
        usleep(poll_interval_us);
}

void recursive_lock::lock() noexcept {
    pthread_mutex_lock(&mutex);
}

void recursive_lock::unlock() noexcept {
    pthread_mutex_unlock(&mutex);
}

} // namespace coherdma::registry

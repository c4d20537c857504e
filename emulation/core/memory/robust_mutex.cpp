// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "robust_mutex.hpp"

#include <cerrno>

namespace coherdma::emulation {

timespec to_timespec(std::chrono::steady_clock::time_point time) noexcept {
    using namespace std::chrono;
    const auto whole = time_point_cast<seconds>(time);
    return {.tv_sec = whole.time_since_epoch().count(),
            .tv_nsec = duration_cast<nanoseconds>(time - whole).count()};
}

void init_robust_mutex(pthread_mutex_t &mutex) noexcept {
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&mutex, &attr);
    pthread_mutexattr_destroy(&attr);
}

/// After a timeout, glibc leaves the mutex noted as the one that this thread is about to lock. If
/// the thread then ended, the kernel would take the mutex from a thread with the same number in
/// another PID namespace. Locking another one replaces the note.
static void forget_pending_mutex() noexcept {
    pthread_mutex_t other;
    init_robust_mutex(other);
    pthread_mutex_lock(&other);
    pthread_mutex_unlock(&other);
    pthread_mutex_destroy(&other);
}

robust_lock_guard::robust_lock_guard(pthread_mutex_t &mutex) noexcept
    : mutex_(mutex)
    , is_locked_(is_locked_by(pthread_mutex_lock(&mutex_))) {}

robust_lock_guard::robust_lock_guard(pthread_mutex_t &mutex,
                                     std::chrono::milliseconds timeout) noexcept
    : mutex_(mutex) {
    const timespec deadline = to_timespec(std::chrono::steady_clock::now() + timeout);
    const int error = pthread_mutex_clocklock(&mutex_, CLOCK_MONOTONIC, &deadline);
    is_locked_ = is_locked_by(error);
    if (error == ETIMEDOUT)
        forget_pending_mutex();
}

/// What a function that locks it has returned.
bool robust_lock_guard::is_locked_by(int error) noexcept {
    if (error == EOWNERDEAD)
        pthread_mutex_consistent(&mutex_);
    return error == 0 || error == EOWNERDEAD;
}

robust_lock_guard::~robust_lock_guard() {
    if (is_locked_)
        pthread_mutex_unlock(&mutex_);
}

} // namespace coherdma::emulation

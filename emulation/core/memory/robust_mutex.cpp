// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "robust_mutex.hpp"

#include <cerrno>

namespace coherdma::emulation {

void init_robust_mutex(pthread_mutex_t &mutex) noexcept {
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&mutex, &attr);
    pthread_mutexattr_destroy(&attr);
}

robust_lock_guard::robust_lock_guard(pthread_mutex_t &mutex) noexcept
    : mutex_(mutex) {
    const int error = pthread_mutex_lock(&mutex_);
    if (error == EOWNERDEAD)
        pthread_mutex_consistent(&mutex_);
    is_locked_ = error == 0 || error == EOWNERDEAD;
}

robust_lock_guard::~robust_lock_guard() {
    if (is_locked_)
        pthread_mutex_unlock(&mutex_);
}

} // namespace coherdma::emulation

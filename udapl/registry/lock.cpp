// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "lock.hpp"

#include <pthread.h>

namespace coherdma::registry {
namespace {

pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
pthread_once_t once = PTHREAD_ONCE_INIT;

void lock() noexcept {
    pthread_mutex_lock(&mutex);
}
void unlock() noexcept {
    pthread_mutex_unlock(&mutex);
}
/// The child's thread has another number than the one that holds it.
void begin_anew() noexcept {
    mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
}

} // namespace

locked::locked() noexcept {
    pthread_once(&once, [] { pthread_atfork(lock, unlock, begin_anew); });
    lock();
}

locked::~locked() {
    unlock();
}

} // namespace coherdma::registry

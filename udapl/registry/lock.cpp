// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "lock.hpp"

#include "handles/ia_table.hpp"

#include <pthread.h>

namespace coherdma::registry {
namespace {

pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
pthread_once_t atfork_once = PTHREAD_ONCE_INIT;

void atfork_prepare() noexcept {
    pthread_mutex_lock(&mutex);
}
void atfork_parent() noexcept {
    pthread_mutex_unlock(&mutex);
}
/// The mutex has the thread ID of its owner, which differs in the child: it cannot be unlocked
/// there.
void atfork_child() noexcept {
    forget_ias();
    mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
}

} // namespace

void recursive_lock::lock() noexcept {
    pthread_once(&atfork_once, [] { pthread_atfork(atfork_prepare, atfork_parent, atfork_child); });
    pthread_mutex_lock(&mutex);
}

void recursive_lock::unlock() noexcept {
    pthread_mutex_unlock(&mutex);
}

} // namespace coherdma::registry

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The functions of libc that block or tell the time, for all of the program and its libraries: a
// scheduled thread blocks in the schedule only, and gets virtual time. Other threads get the real
// functions.

#include "scheduler.hpp"

#include <cerrno>
#include <ctime>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <unordered_map>

namespace {

using schedule::action;

#define CALLER __builtin_return_address(0)

/// The definition of a function after ours.
template <typename function>
function *real(function *, const char *name) {
    return reinterpret_cast<function *>(dlsym(RTLD_NEXT, name));
}
#define REAL(name) static auto *const real_##name = real(name, #name)

/// The schedule has locks of its own; those of the program are only their names.
struct lock_state {
    unsigned num_readers = 0, depth = 0; ///< depth: of a writer, which may lock recursively
    pthread_t writer{};
};
std::unordered_map<const void *, lock_state> locks; ///< accessed by the thread whose turn it is

bool is_own(const lock_state &lock) {
    return lock.depth != 0 && pthread_equal(lock.writer, pthread_self()) != 0;
}

int try_write_lock(const void *name, bool is_recursive) {
    lock_state &lock = locks[name];
    if (is_own(lock) && is_recursive) {
        ++lock.depth;
        return 0;
    }
    if (lock.depth != 0 || lock.num_readers != 0)
        return EBUSY;
    lock.depth = 1;
    lock.writer = pthread_self();
    return 0;
}

int write_lock(const void *name, bool is_recursive, const void *pc) {
    schedule::point(action::LOCK, name, pc);
    while (try_write_lock(name, is_recursive) != 0)
        schedule::wait_for(name, schedule::NEVER, action::LOCK, pc);
    return 0;
}

int unlock(const void *name, const void *pc) {
    lock_state &lock = locks[name];
    if (lock.depth != 0 && !is_own(lock))
        schedule::fail_schedule("a thread unlocks what another has locked");
    if (lock.depth == 0 && lock.num_readers == 0)
        schedule::fail_schedule("a thread unlocks what is not locked");
    if (lock.depth != 0)
        --lock.depth;
    else
        --lock.num_readers;
    if (lock.depth == 0 && lock.num_readers == 0) {
        locks.erase(name);
        schedule::wake_all(name);
    }
    schedule::point(action::UNLOCK, name, pc);
    return 0;
}

bool is_recursive(const pthread_mutex_t &mutex) {
    return (mutex.__data.__kind & 3) == PTHREAD_MUTEX_RECURSIVE;
}

std::uint64_t to_ns(const timespec &time) {
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
           static_cast<std::uint64_t>(time.tv_nsec);
}

timespec to_timespec(std::uint64_t ns) {
    return {.tv_sec = static_cast<time_t>(ns / 1'000'000'000),
            .tv_nsec = static_cast<long>(ns % 1'000'000'000)};
}

int wait_on_condition(pthread_cond_t *cond, pthread_mutex_t *mutex, std::uint64_t deadline,
                      const void *pc) {
    // From here to the wait no other thread goes on, as the standard demands.
    locks.erase(mutex);
    schedule::wake_all(mutex);
    const bool woken = schedule::wait_for(cond, deadline, action::WAIT, pc);
    write_lock(mutex, is_recursive(*mutex), pc);
    return woken ? 0 : ETIMEDOUT;
}

} // namespace

void schedule::forget_locks() {
    locks.clear();
}

extern "C" {

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*function)(void *),
                   void *arg) {
    return schedule::create_thread(thread, attr, function, arg, CALLER);
}

int pthread_join(pthread_t thread, void **result) {
    REAL(pthread_join);
    schedule::join_thread(thread, CALLER);
    return real_pthread_join(thread, result);
}

int pthread_mutex_lock(pthread_mutex_t *mutex) {
    REAL(pthread_mutex_lock);
    if (!schedule::is_scheduled())
        return real_pthread_mutex_lock(mutex);
    return write_lock(mutex, is_recursive(*mutex), CALLER);
}

int pthread_mutex_trylock(pthread_mutex_t *mutex) {
    REAL(pthread_mutex_trylock);
    if (!schedule::is_scheduled())
        return real_pthread_mutex_trylock(mutex);
    schedule::point(action::LOCK, mutex, CALLER);
    return try_write_lock(mutex, is_recursive(*mutex));
}

int pthread_mutex_unlock(pthread_mutex_t *mutex) {
    REAL(pthread_mutex_unlock);
    if (!schedule::is_scheduled())
        return real_pthread_mutex_unlock(mutex);
    return unlock(mutex, CALLER);
}

int pthread_rwlock_wrlock(pthread_rwlock_t *lock) {
    REAL(pthread_rwlock_wrlock);
    if (!schedule::is_scheduled())
        return real_pthread_rwlock_wrlock(lock);
    return write_lock(lock, false, CALLER);
}

int pthread_rwlock_rdlock(pthread_rwlock_t *lock) {
    REAL(pthread_rwlock_rdlock);
    if (!schedule::is_scheduled())
        return real_pthread_rwlock_rdlock(lock);
    schedule::point(action::LOCK, lock, CALLER);
    while (locks[lock].depth != 0)
        schedule::wait_for(lock, schedule::NEVER, action::LOCK, CALLER);
    ++locks[lock].num_readers;
    return 0;
}

int pthread_rwlock_unlock(pthread_rwlock_t *lock) {
    REAL(pthread_rwlock_unlock);
    if (!schedule::is_scheduled())
        return real_pthread_rwlock_unlock(lock);
    return unlock(lock, CALLER);
}

int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex) {
    REAL(pthread_cond_wait);
    if (!schedule::is_scheduled())
        return real_pthread_cond_wait(cond, mutex);
    return wait_on_condition(cond, mutex, schedule::NEVER, CALLER);
}

// Both clocks begin with the schedule.
int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const timespec *deadline) {
    REAL(pthread_cond_timedwait);
    if (!schedule::is_scheduled())
        return real_pthread_cond_timedwait(cond, mutex, deadline);
    return wait_on_condition(cond, mutex, to_ns(*deadline), CALLER);
}

int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
                           const timespec *deadline) {
    REAL(pthread_cond_clockwait);
    if (!schedule::is_scheduled())
        return real_pthread_cond_clockwait(cond, mutex, clock, deadline);
    return wait_on_condition(cond, mutex, to_ns(*deadline), CALLER);
}

int pthread_cond_signal(pthread_cond_t *cond) {
    REAL(pthread_cond_signal);
    if (!schedule::is_scheduled())
        return real_pthread_cond_signal(cond);
    schedule::point(action::WAKE, cond, CALLER);
    schedule::wake_one(cond);
    return 0;
}

int pthread_cond_broadcast(pthread_cond_t *cond) {
    REAL(pthread_cond_broadcast);
    if (!schedule::is_scheduled())
        return real_pthread_cond_broadcast(cond);
    schedule::point(action::WAKE, cond, CALLER);
    schedule::wake_all(cond);
    return 0;
}

int sched_yield() {
    REAL(sched_yield);
    if (!schedule::is_scheduled())
        return real_sched_yield();
    schedule::yield(CALLER);
    return 0;
}

int clock_nanosleep(clockid_t clock, int flags, const timespec *duration, timespec *rest) {
    REAL(clock_nanosleep);
    if (!schedule::is_scheduled())
        return real_clock_nanosleep(clock, flags, duration, rest);
    const std::uint64_t begin = (flags & TIMER_ABSTIME) != 0 ? 0 : schedule::now_ns();
    schedule::wait_for(nullptr, begin + to_ns(*duration), action::SLEEP, CALLER);
    return 0;
}

int nanosleep(const timespec *duration, timespec *rest) {
    REAL(nanosleep);
    if (!schedule::is_scheduled())
        return real_nanosleep(duration, rest);
    schedule::wait_for(nullptr, schedule::now_ns() + to_ns(*duration), action::SLEEP, CALLER);
    return 0;
}

int clock_gettime(clockid_t clock, timespec *time) {
    REAL(clock_gettime);
    if (!schedule::is_scheduled())
        return real_clock_gettime(clock, time);
    *time = to_timespec(schedule::now_ns());
    return 0;
}
}

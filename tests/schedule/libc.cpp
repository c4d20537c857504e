// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The functions of libc that block or tell the time, for all of the program and its libraries: a
// scheduled thread blocks in the schedule only, and gets virtual time. Other threads get the real
// functions.

#include "schedule.hpp"
#include "scheduler.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdarg>
#include <ctime>
#include <cxxabi.h>
#include <linux/futex.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unordered_map>

namespace {

using schedule::action;

#define CALLER __builtin_return_address(0)

/// At the begin of a function of ours.
#define REAL_UNLESS_SCHEDULED(name, ...)                                                           \
    REAL(name);                                                                                    \
    if (!schedule::is_scheduled())                                                                 \
    return real_##name(__VA_ARGS__)

/// The schedule has locks of its own; those of the program are only their names.
struct lock_state {
    unsigned num_readers = 0, depth = 0; ///< depth: of a writer, which may lock recursively
    pthread_t writer{};
};
std::unordered_map<const void *, lock_state> locks; ///< accessed by the thread whose turn it is

struct barrier_state {
    unsigned num_threads = 0, num_waiting = 0;
};
std::unordered_map<const void *, barrier_state> barriers;

bool is_own(const lock_state &lock) {
    return lock.depth != 0 && pthread_equal(lock.writer, pthread_self()) != 0;
}

bool is_recursive(const pthread_mutex_t &mutex) {
    return (mutex.__data.__kind & 3) == PTHREAD_MUTEX_RECURSIVE;
}

int try_write_lock(const void *name) {
    lock_state &lock = locks[name];
    if (lock.depth != 0 || lock.num_readers != 0)
        return EBUSY;
    lock.depth = 1;
    lock.writer = pthread_self();
    return 0;
}

int try_read_lock(const void *name) {
    if (locks[name].depth != 0)
        return EBUSY;
    ++locks[name].num_readers;
    return 0;
}

int try_mutex_lock(const void *mutex) {
    lock_state &lock = locks[mutex];
    if (!is_own(lock) || !is_recursive(*static_cast<const pthread_mutex_t *>(mutex)))
        return try_write_lock(mutex);
    ++lock.depth;
    return 0;
}

/// Readers do not order each other: what they release has another name.
const void *readers_of(const void *name) {
    return static_cast<const char *>(name) + 1;
}

/// The thread knows what those knew that have had the lock, if it excluded them.
void acquire_lock(const void *name) {
    schedule::acquire(name);
    if (locks[name].depth != 0)
        schedule::acquire(readers_of(name));
}

/// try_lock: returns EBUSY while the thread must wait.
int lock_until(const void *name, std::uint64_t deadline, int (*try_lock)(const void *),
               const void *pc) {
    schedule::point(action::LOCK, name, pc);
    while (try_lock(name) == EBUSY)
        if (!schedule::wait_for(name, deadline, action::LOCK, pc))
            return ETIMEDOUT;
    acquire_lock(name);
    return 0;
}

int unlock(const void *name, const void *pc) {
    lock_state &lock = locks[name];
    if (lock.depth != 0 && !is_own(lock))
        schedule::fail_schedule("a thread unlocks what another has locked");
    if (lock.depth == 0 && lock.num_readers == 0)
        schedule::fail_schedule("a thread unlocks what is not locked");
    schedule::release(lock.depth != 0 ? name : readers_of(name));
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

constexpr std::uint64_t NS_PER_SECOND = 1'000'000'000;

std::uint64_t to_ns(const timespec &time) {
    if (time.tv_sec < 0)
        return 0;
    return static_cast<std::uint64_t>(time.tv_sec) * NS_PER_SECOND +
           static_cast<std::uint64_t>(time.tv_nsec);
}

timespec to_timespec(std::uint64_t ns) {
    return {.tv_sec = static_cast<time_t>(ns / NS_PER_SECOND),
            .tv_nsec = static_cast<long>(ns % NS_PER_SECOND)};
}

/// As wait_for(), but seldom the thread is woken without a reason.
bool wait_unless_woken(const void *object, std::uint64_t deadline, const void *pc) {
    if (!schedule::happens_seldom())
        return schedule::wait_for(object, deadline, action::WAIT, pc);
    schedule::point(action::WAIT, object, pc);
    return true;
}

int wait_on_condition(pthread_cond_t *cond, pthread_mutex_t *mutex, std::uint64_t deadline,
                      const void *pc) {
    // From here to the wait no other thread goes on, as the standard demands.
    locks.erase(mutex);
    schedule::release(mutex);
    schedule::wake_all(mutex);
    const bool woken = wait_unless_woken(cond, deadline, pc);
    lock_until(mutex, schedule::NEVER, try_mutex_lock, pc);
    return woken ? 0 : ETIMEDOUT;
}

/// As sem_clockwait(): a semaphore of libc has its value also here.
int wait_on_semaphore(sem_t *semaphore, std::uint64_t deadline, const void *pc) {
    REAL(sem_trywait);
    schedule::point(action::LOCK, semaphore, pc);
    while (real_sem_trywait(semaphore) != 0) {
        if (errno != EAGAIN)
            return -1;
        if (!schedule::wait_for(semaphore, deadline, action::LOCK, pc)) {
            errno = ETIMEDOUT;
            return -1;
        }
    }
    schedule::acquire(semaphore);
    return 0;
}

int sleep_for(std::uint64_t ns, const void *pc) {
    schedule::wait_for(nullptr, schedule::now_ns() + ns, action::SLEEP, pc);
    return 0;
}

/// What a thread waits for in poll(): whether a descriptor is ready is known to the kernel, and a
/// call that may change it wakes all.
constexpr char DESCRIPTORS = 0;

/// look(): as poll() or epoll_wait() without a time limit. Without descriptors it is a sleep.
template <typename look_type>
int wait_until_ready(bool has_descriptors, std::uint64_t deadline, const void *pc, look_type look) {
    schedule::point(action::WAIT, &DESCRIPTORS, pc);
    for (;;) {
        const int num_ready = look();
        if (num_ready != 0 || schedule::now_ns() >= deadline) {
            schedule::acquire(&DESCRIPTORS);
            return num_ready;
        }
        schedule::wait_for(has_descriptors ? &DESCRIPTORS : nullptr, deadline,
                           has_descriptors ? action::WAIT : action::SLEEP, pc);
    }
}

int poll_until(pollfd *fds, nfds_t num_fds, std::uint64_t deadline, const void *pc) {
    REAL(poll);
    return wait_until_ready(num_fds != 0, deadline, pc, [&] { return real_poll(fds, num_fds, 0); });
}

std::uint64_t deadline_after_ms(int timeout_ms) {
    constexpr std::uint64_t NS_PER_MS = 1'000'000;
    return timeout_ms < 0 ? schedule::NEVER
                          : schedule::now_ns() + static_cast<std::uint64_t>(timeout_ms) * NS_PER_MS;
}

std::uint64_t deadline_after(const timespec *timeout) {
    return timeout == nullptr ? schedule::NEVER : schedule::now_ns() + to_ns(*timeout);
}

/// The operations of std::atomic::wait(), of semaphores, and of the guard of a static variable.
/// Others are those of the kernel.
bool is_known_futex_operation(long operation) {
    switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET:
        return true;
    default:
        return false;
    }
}

long fail_with(int error) {
    errno = error;
    return -1;
}

/// More threads may be woken than the caller asks for: who waits for a futex expects that.
long futex(const std::uint32_t *word, long operation, std::uint32_t value, const timespec *timeout,
           const void *pc) {
    const long command = operation & FUTEX_CMD_MASK;
    if (command == FUTEX_WAKE || command == FUTEX_WAKE_BITSET) {
        schedule::point(action::WAKE, word, pc);
        const bool wakes_one = command == FUTEX_WAKE && value == 1;
        return wakes_one ? schedule::wake_one(word) : schedule::wake_all(word);
    }
    schedule::point(action::WAIT, word, pc);
    if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != value)
        return fail_with(EAGAIN);
    const std::uint64_t deadline = command == FUTEX_WAIT_BITSET && timeout != nullptr
                                       ? to_ns(*timeout)
                                       : deadline_after(timeout);
    return wait_unless_woken(word, deadline, pc) ? 0 : fail_with(ETIMEDOUT);
}

} // namespace

void schedule::forget_locks() {
    locks.clear();
}

long schedule::system_call(long number, va_list list, const void *pc) noexcept {
    std::array<long, 6> args;
    for (long &arg : args)
        arg = va_arg(list, long);
    REAL(syscall);
    if (number == SYS_futex && is_scheduled() && is_known_futex_operation(args[1]))
        return futex(reinterpret_cast<const std::uint32_t *>(args[0]), args[1],
                     static_cast<std::uint32_t>(args[2]),
                     reinterpret_cast<const timespec *>(args[3]), pc);
    return real_syscall(number, args[0], args[1], args[2], args[3], args[4], args[5]);
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

int pthread_detach(pthread_t thread) {
    REAL(pthread_detach);
    schedule::detach_thread(thread);
    return real_pthread_detach(thread);
}

// The words of libc: 0, begun, done.
int pthread_once(pthread_once_t *once, void (*function)()) {
    REAL_UNLESS_SCHEDULED(pthread_once, once, function);
    constexpr int BEGUN = 1, DONE = 2;
    schedule::point(action::LOCK, once, CALLER);
    while (*once == BEGUN)
        schedule::wait_for(once, schedule::NEVER, action::LOCK, CALLER);
    schedule::acquire(once);
    if (*once == DONE)
        return 0;
    const auto end = [&](int word) {
        *once = word;
        schedule::release(once);
        schedule::wake_all(once);
    };
    *once = BEGUN;
    try {
        function();
    } catch (...) { // the next caller calls it again
        end(PTHREAD_ONCE_INIT);
        throw;
    }
    end(DONE);
    schedule::point(action::UNLOCK, once, CALLER);
    return 0;
}

// The guard of a static variable. The code under test loads its first byte, and does not call these
// if that is set.
int __cxa_guard_acquire(__cxxabiv1::__guard *guard) {
    REAL(__cxa_guard_acquire);
    const int must_initialize = real___cxa_guard_acquire(guard);
    schedule::acquire(guard);
    return must_initialize;
}

void __cxa_guard_release(__cxxabiv1::__guard *guard) noexcept {
    REAL(__cxa_guard_release);
    schedule::release(guard);
    if (const schedule::model_in_use model; model)
        model->store(guard, 1, __ATOMIC_RELEASE, 0, 1);
    real___cxa_guard_release(guard);
}

void __cxa_guard_abort(__cxxabiv1::__guard *guard) noexcept {
    REAL(__cxa_guard_abort);
    schedule::release(guard);
    real___cxa_guard_abort(guard);
}

// The functions that lock have names of a prefix and a suffix. All clocks begin with the schedule.
#define LOCK_FUNCTIONS(prefix, suffix, type, try_lock)                                             \
    int prefix##suffix(type *lock) {                                                               \
        REAL_UNLESS_SCHEDULED(prefix##suffix, lock);                                               \
        return lock_until(lock, schedule::NEVER, try_lock, CALLER);                                \
    }                                                                                              \
    int prefix##try##suffix(type *lock) {                                                          \
        REAL_UNLESS_SCHEDULED(prefix##try##suffix, lock);                                          \
        schedule::point(action::LOCK, lock, CALLER);                                               \
        const int error = try_lock(lock);                                                          \
        if (error == 0)                                                                            \
            acquire_lock(lock);                                                                    \
        return error;                                                                              \
    }                                                                                              \
    int prefix##timed##suffix(type *lock, const timespec *deadline) {                              \
        REAL_UNLESS_SCHEDULED(prefix##timed##suffix, lock, deadline);                              \
        return lock_until(lock, to_ns(*deadline), try_lock, CALLER);                               \
    }                                                                                              \
    int prefix##clock##suffix(type *lock, clockid_t clock, const timespec *deadline) {             \
        REAL_UNLESS_SCHEDULED(prefix##clock##suffix, lock, clock, deadline);                       \
        return lock_until(lock, to_ns(*deadline), try_lock, CALLER);                               \
    }
LOCK_FUNCTIONS(pthread_mutex_, lock, pthread_mutex_t, try_mutex_lock)
LOCK_FUNCTIONS(pthread_rwlock_, wrlock, pthread_rwlock_t, try_write_lock)
LOCK_FUNCTIONS(pthread_rwlock_, rdlock, pthread_rwlock_t, try_read_lock)

int pthread_mutex_unlock(pthread_mutex_t *mutex) {
    REAL_UNLESS_SCHEDULED(pthread_mutex_unlock, mutex);
    return unlock(mutex, CALLER);
}

int pthread_rwlock_unlock(pthread_rwlock_t *lock) {
    REAL_UNLESS_SCHEDULED(pthread_rwlock_unlock, lock);
    return unlock(lock, CALLER);
}

int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex) {
    REAL_UNLESS_SCHEDULED(pthread_cond_wait, cond, mutex);
    return wait_on_condition(cond, mutex, schedule::NEVER, CALLER);
}

int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const timespec *deadline) {
    REAL_UNLESS_SCHEDULED(pthread_cond_timedwait, cond, mutex, deadline);
    return wait_on_condition(cond, mutex, to_ns(*deadline), CALLER);
}

int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
                           const timespec *deadline) {
    REAL_UNLESS_SCHEDULED(pthread_cond_clockwait, cond, mutex, clock, deadline);
    return wait_on_condition(cond, mutex, to_ns(*deadline), CALLER);
}

int pthread_cond_signal(pthread_cond_t *cond) {
    REAL_UNLESS_SCHEDULED(pthread_cond_signal, cond);
    schedule::point(action::WAKE, cond, CALLER);
    schedule::wake_one(cond);
    return 0;
}

int pthread_cond_broadcast(pthread_cond_t *cond) {
    REAL_UNLESS_SCHEDULED(pthread_cond_broadcast, cond);
    schedule::point(action::WAKE, cond, CALLER);
    schedule::wake_all(cond);
    return 0;
}

int sem_wait(sem_t *semaphore) {
    REAL_UNLESS_SCHEDULED(sem_wait, semaphore);
    return wait_on_semaphore(semaphore, schedule::NEVER, CALLER);
}

int sem_timedwait(sem_t *semaphore, const timespec *deadline) {
    REAL_UNLESS_SCHEDULED(sem_timedwait, semaphore, deadline);
    return wait_on_semaphore(semaphore, to_ns(*deadline), CALLER);
}

int sem_clockwait(sem_t *semaphore, clockid_t clock, const timespec *deadline) {
    REAL_UNLESS_SCHEDULED(sem_clockwait, semaphore, clock, deadline);
    return wait_on_semaphore(semaphore, to_ns(*deadline), CALLER);
}

int sem_trywait(sem_t *semaphore) {
    REAL_UNLESS_SCHEDULED(sem_trywait, semaphore);
    schedule::point(action::LOCK, semaphore, CALLER);
    const int result = real_sem_trywait(semaphore);
    if (result == 0)
        schedule::acquire(semaphore);
    return result;
}

int sem_post(sem_t *semaphore) {
    REAL_UNLESS_SCHEDULED(sem_post, semaphore);
    schedule::point(action::UNLOCK, semaphore, CALLER);
    schedule::release(semaphore);
    const int result = real_sem_post(semaphore);
    schedule::wake_all(semaphore);
    return result;
}

int pthread_barrier_init(pthread_barrier_t *barrier, const pthread_barrierattr_t *attr,
                         unsigned num_threads) {
    REAL(pthread_barrier_init);
    barriers[barrier] = {.num_threads = num_threads};
    return real_pthread_barrier_init(barrier, attr, num_threads);
}

int pthread_barrier_wait(pthread_barrier_t *barrier) {
    REAL_UNLESS_SCHEDULED(pthread_barrier_wait, barrier);
    schedule::point(action::WAIT, barrier, CALLER);
    barrier_state &state = barriers[barrier];
    schedule::release(barrier);
    if (++state.num_waiting < state.num_threads) {
        schedule::wait_for(barrier, schedule::NEVER, action::WAIT, CALLER);
        schedule::acquire(barrier);
        return 0;
    }
    schedule::acquire(barrier);
    state.num_waiting = 0;
    schedule::wake_all(barrier);
    return PTHREAD_BARRIER_SERIAL_THREAD;
}

int sched_yield() {
    REAL_UNLESS_SCHEDULED(sched_yield);
    schedule::yield(CALLER);
    return 0;
}

int clock_nanosleep(clockid_t clock, int flags, const timespec *duration, timespec *rest) {
    REAL_UNLESS_SCHEDULED(clock_nanosleep, clock, flags, duration, rest);
    if ((flags & TIMER_ABSTIME) == 0)
        return sleep_for(to_ns(*duration), CALLER);
    schedule::wait_for(nullptr, to_ns(*duration), action::SLEEP, CALLER);
    return 0;
}

int nanosleep(const timespec *duration, timespec *rest) {
    REAL_UNLESS_SCHEDULED(nanosleep, duration, rest);
    return sleep_for(to_ns(*duration), CALLER);
}

int usleep(useconds_t us) {
    REAL_UNLESS_SCHEDULED(usleep, us);
    return sleep_for(std::uint64_t{us} * 1000, CALLER);
}

unsigned sleep(unsigned seconds) {
    REAL_UNLESS_SCHEDULED(sleep, seconds);
    sleep_for(seconds * NS_PER_SECOND, CALLER);
    return 0;
}

int poll(pollfd *fds, nfds_t num_fds, int timeout_ms) {
    REAL_UNLESS_SCHEDULED(poll, fds, num_fds, timeout_ms);
    return poll_until(fds, num_fds, deadline_after_ms(timeout_ms), CALLER);
}

int ppoll(pollfd *fds, nfds_t num_fds, const timespec *timeout, const sigset_t *signals) {
    REAL_UNLESS_SCHEDULED(ppoll, fds, num_fds, timeout, signals);
    return poll_until(fds, num_fds, deadline_after(timeout), CALLER);
}

int epoll_wait(int epoll_fd, epoll_event *events, int max_events, int timeout_ms) {
    REAL_UNLESS_SCHEDULED(epoll_wait, epoll_fd, events, max_events, timeout_ms);
    return wait_until_ready(true, deadline_after_ms(timeout_ms), CALLER,
                            [&] { return real_epoll_wait(epoll_fd, events, max_events, 0); });
}

int epoll_ctl(int epoll_fd, int operation, int fd, epoll_event *event) noexcept {
    REAL_UNLESS_SCHEDULED(epoll_ctl, epoll_fd, operation, fd, event);
    schedule::point(action::WAKE, &DESCRIPTORS, CALLER);
    const int result = real_epoll_ctl(epoll_fd, operation, fd, event);
    schedule::wake_all(&DESCRIPTORS);
    return result;
}

// Weak: a program may have its own.
[[gnu::weak]] ssize_t write(int fd, const void *bytes, std::size_t count) {
    REAL_UNLESS_SCHEDULED(write, fd, bytes, count);
    schedule::point(action::WAKE, &DESCRIPTORS, CALLER);
    schedule::release(&DESCRIPTORS);
    const ssize_t result = real_write(fd, bytes, count);
    schedule::wake_all(&DESCRIPTORS);
    return result;
}

ssize_t read(int fd, void *bytes, std::size_t count) {
    REAL_UNLESS_SCHEDULED(read, fd, bytes, count);
    schedule::point(action::READ, &DESCRIPTORS, CALLER);
    return real_read(fd, bytes, count);
}

int eventfd_write(int fd, eventfd_t value) {
    return write(fd, &value, sizeof value) == sizeof value ? 0 : -1;
}

int eventfd_read(int fd, eventfd_t *value) {
    return read(fd, value, sizeof *value) == sizeof *value ? 0 : -1;
}

int clock_gettime(clockid_t clock, timespec *time) {
    REAL_UNLESS_SCHEDULED(clock_gettime, clock, time);
    schedule::point(action::READ, nullptr, CALLER);
    *time = to_timespec(schedule::now_ns());
    return 0;
}

// These do not wait. Memory that is freed is another object's next time.
void __libc_free(void *memory);
void *__libc_realloc(void *memory, std::size_t size);

void free(void *memory) noexcept {
    schedule::forget_memory(memory, malloc_usable_size(memory));
    __libc_free(memory);
}

void *realloc(void *memory, std::size_t size) noexcept {
    schedule::forget_memory(memory, malloc_usable_size(memory));
    return __libc_realloc(memory, size);
}

// Weak: a program may have its own.
[[gnu::weak]] long syscall(long number, ...) noexcept {
    va_list list;
    va_start(list, number);
    const long result = schedule::system_call(number, list, CALLER);
    va_end(list);
    return result;
}
}

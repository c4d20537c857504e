// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "event_thread.hpp"

#include "dapl/core/arena.hpp"
#include "dapl/core/deadline.hpp"
#include "dapl/core/fork_guard.hpp"
#include "dapl/core/lock.hpp"
#include "dapl/core/log.hpp"
#include "dapl/core/settings.hpp"
#include "upcalls.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <memory>
#include <new>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

namespace coherdma::dapl::event_thread {

namespace {

// No destructors: the thread keeps running while the process is in exit().
struct {
    mutex lifecycle_lock;   ///< of starting and stopping the thread, and num_users
    unsigned num_users = 0; ///< open IAs
    pthread_t thread = {};
    std::atomic<bool> stop_requested = false;
    std::shared_ptr<rdma_event_channel> *channel = nullptr;
    int epoll_fd = -1, wake_fd = -1; ///< change with lock held, too

    mutex lock;                       ///< of the fields that follow
    timer_task *first_task = nullptr; ///< ordered by due_ns
    /// The watcher or task that is being called. cancel and wait_for_callback wait until theirs is
    /// not.
    std::atomic<const void *> current_callee = nullptr;
} state;

thread_local bool is_event_thread = false;

void wake_thread() noexcept {
    eventfd_write(state.wake_fd, 1);
}

void call(fd_watcher &watcher) noexcept {
    watcher.handle_readable();
}
void call(timer_task &task) noexcept {
    task.run();
}

/// Calls a watcher or task. With state.lock held, which is released during the call.
template <class callee_type>
void call_current(callee_type &callee) noexcept {
    state.current_callee.store(&callee, std::memory_order_relaxed);
    state.lock.unlock();
    call(callee);
    leave_callback();
    state.lock.lock();
}

/// Waits until the event thread does not call `callee`, unless this is the event thread.
// The caller has held state.lock: the callee sees what the caller wrote before, or the caller sees
// current_callee.
void wait_while_current(const void *callee) noexcept {
    if (!in_event_thread())
        // acquire: sees what the call wrote.
        while (state.current_callee.load(std::memory_order_acquire) == callee)
            state.current_callee.wait(callee, std::memory_order_acquire);
}

/// Runs the first scheduled task. False: none is due. With state.lock held.
bool run_due_task() noexcept {
    timer_task *const task = state.first_task;
    if (task == nullptr || task->due_ns > dat_deadline::now_ns())
        return false;
    state.first_task = task->next;
    task->scheduled = false;
    call_current(*task);
    return true;
}

/// Calls one watcher whose descriptor is readable. False: none is. With state.lock held.
bool call_ready_watcher() noexcept {
    epoll_event event;
    if (epoll_wait(state.epoll_fd, &event, 1, 0) <= 0)
        return false;
    if (event.data.ptr == nullptr) { // wake_fd
        std::uint64_t value;
        [[maybe_unused]] const ssize_t size = read(state.wake_fd, &value, sizeof value);
        return true;
    }
    call_current(*static_cast<fd_watcher *>(event.data.ptr));
    return true;
}

/// Time until the first task is due; -1: no task is scheduled.
int poll_timeout_ms() noexcept {
    if (state.first_task == nullptr)
        return -1;
    const std::int64_t wait_ns = state.first_task->due_ns - dat_deadline::now_ns();
    constexpr std::int64_t max_wait_ns = 60'000'000'000; // the timeout of poll() is an int
    return wait_ns <= 0 ? 0
                        : static_cast<int>((std::min(wait_ns, max_wait_ns) + 999'999) / 1'000'000);
}

/// The event thread: runs due tasks and calls watchers; else sleeps until one is due or readable.
void *thread_main(void *) noexcept {
    is_event_thread = true;
    ++fork_guard::num_guards;
    pthread_setname_np(pthread_self(), "coherdma-dapl");
    pollfd poll_fd = {state.epoll_fd, POLLIN, 0};
    state.lock.lock();
    while (!state.stop_requested.load(std::memory_order_relaxed)) {
        // The lock is released during each call, so other threads do not starve.
        const bool ran_task = run_due_task();
        if (call_ready_watcher() || ran_task)
            continue;
        const int wait_ms = poll_timeout_ms();
        state.lock.unlock();
        poll(&poll_fd, 1, wait_ms);
        state.lock.lock();
    }
    state.lock.unlock();
    return nullptr;
}

void close_fds() noexcept {
    for (int *fd : {&state.epoll_fd, &state.wake_fd})
        if (*fd >= 0)
            close(std::exchange(*fd, -1));
}

/// With lifecycle_lock held, and no thread.
void close_all_locked() noexcept {
    delete std::exchange(state.channel, nullptr);
    // An attempt may outlive its IA, and its thread may call schedule() now.
    const std::lock_guard guard(state.lock);
    close_fds();
}

/// Ends the thread. With lifecycle_lock held.
void join_locked() noexcept {
    state.stop_requested.store(true, std::memory_order_relaxed);
    wake_thread();
    pthread_join(state.thread, nullptr);
    close_all_locked();
}

/// Creates the descriptors and the thread. With lifecycle_lock held. 0 or an errno; then the caller
/// closes what was created.
int start_locked() noexcept {
    {
        const std::lock_guard guard(state.lock); // as in close_all_locked
        state.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        state.wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    }
    if (state.epoll_fd < 0 || state.wake_fd < 0)
        return errno;
    epoll_event event = {};
    event.events = EPOLLIN;
    if (epoll_ctl(state.epoll_fd, EPOLL_CTL_ADD, state.wake_fd, &event) != 0)
        return errno;
    rdma_event_channel *const new_channel = rdma_create_event_channel();
    if (new_channel == nullptr)
        return errno;
    try {
        std::shared_ptr<rdma_event_channel> owner(new_channel, rdma_destroy_event_channel);
        state.channel = new std::shared_ptr<rdma_event_channel>(std::move(owner));
    } catch (const std::bad_alloc &) {
        return ENOMEM;
    }
    const int fd = new_channel->fd;
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return errno;
    if (const int error = watch(fd, cm::channel_watcher()))
        return error;
    state.stop_requested.store(false, std::memory_order_relaxed);
    return create_thread(thread_main, nullptr, state.thread);
}

/// In the child of a fork, which has no event thread: drops what it inherited, since that belongs
/// to the parent.
void atfork_child() noexcept {
    is_event_thread = false; // of an agent that forks
    state.num_users = 0;
    state.first_task = nullptr;
    state.current_callee.store(nullptr, std::memory_order_relaxed);
    if (state.channel != nullptr)
        close(channel()->fd);
    state.channel = nullptr;
    close_fds();
    cm::dreq_atfork_child();
    async_events_atfork_child();
    fork_guard::atfork_child();
    state.lock.unlock();
    state.lifecycle_lock.unlock();
}

} // namespace

/// Around a fork the forking thread holds the locks of what the child needs, taken in the lock
/// order. What the child forgets is not locked: its locks are made again there.
void register_atfork() noexcept {
    // Prepare handlers run in reverse order of registration, so the arena's locks are taken last:
    // stop() holds lifecycle_lock while the event thread may take them.
    object_arena::register_atfork();
    pthread_atfork(
        [] {
            state.lifecycle_lock.lock();
            fork_guard::atfork_prepare();
            state.lock.lock();
        },
        [] {
            state.lock.unlock();
            fork_guard::atfork_parent();
            state.lifecycle_lock.unlock();
        },
        atfork_child);
}

int start() noexcept {
    const std::lock_guard guard(state.lifecycle_lock);
    // Static variables, which a fork during their initialization would leave locked in the child.
    get_settings();
    is_logged(log_type::errors);
    if (state.num_users == 0)
        if (const int error = start_locked()) {
            close_all_locked();
            return error;
        }
    ++state.num_users;
    return 0;
}

void stop() noexcept {
    for (;;) {
        {
            const std::lock_guard guard(state.lifecycle_lock);
            if (state.num_users > 1 || !cm::waits_for_dreps()) {
                if (--state.num_users == 0)
                    join_locked();
                return;
            }
        }
        // Without the lock: another thread may call start() meanwhile.
        cm::wait_for_dreps();
    }
}

rdma_event_channel *channel() noexcept {
    return state.channel->get();
}

std::shared_ptr<rdma_event_channel> share_channel() noexcept {
    return *state.channel;
}

int create_thread(void *(*main)(void *) noexcept, void *arg, pthread_t &thread) noexcept {
    sigset_t blocked, old_mask;
    sigfillset(&blocked);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT})
        sigdelset(&blocked, fault);
    pthread_sigmask(SIG_SETMASK, &blocked, &old_mask);
    const int error = pthread_create(&thread, nullptr, main, arg);
    pthread_sigmask(SIG_SETMASK, &old_mask, nullptr);
    return error;
}

bool in_event_thread() noexcept {
    return is_event_thread;
}

int watch(int fd, fd_watcher &watcher) noexcept {
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.ptr = &watcher;
    return epoll_ctl(state.epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : errno;
}

void remove_fd(int fd) noexcept {
    const std::lock_guard guard(state.lock);
    epoll_ctl(state.epoll_fd, EPOLL_CTL_DEL, fd, nullptr);
}

void wait_for_callback(const fd_watcher &watcher) noexcept {
    { const std::lock_guard guard(state.lock); } // see wait_while_current
    wait_while_current(&watcher);
}

void leave_callback() noexcept {
    state.current_callee.store(nullptr); // seq_cst: notify_all loads a count, see lock.cpp
    state.current_callee.notify_all();
}

void unwatch(int fd, fd_watcher &watcher) noexcept {
    remove_fd(fd);
    wait_for_callback(watcher);
}

namespace {

/// With state.lock held; the task is scheduled.
void unlink_task(const timer_task &task) noexcept {
    timer_task **link = &state.first_task;
    while (*link != &task)
        link = &(*link)->next;
    *link = task.next;
}

} // namespace

void schedule(timer_task &task, std::int64_t due_ns) noexcept {
    const std::lock_guard guard(state.lock);
    if (task.scheduled) {
        if (task.due_ns <= due_ns)
            return;
        unlink_task(task);
    }
    timer_task **link = &state.first_task;
    while (*link != nullptr && (*link)->due_ns <= due_ns)
        link = &(*link)->next;
    task.due_ns = due_ns;
    task.scheduled = true;
    task.next = *link;
    *link = &task;
    if (state.first_task == &task)
        wake_thread();
}

bool unschedule(timer_task &task) noexcept {
    const std::lock_guard guard(state.lock);
    if (!task.scheduled)
        return false;
    unlink_task(task);
    task.scheduled = false;
    return true;
}

bool cancel(timer_task &task) noexcept {
    bool was_scheduled = false;
    for (;;) {
        was_scheduled = unschedule(task) || was_scheduled;
        wait_while_current(&task);
        // Its run may have scheduled it again, and it may already be running again.
        const std::lock_guard guard(state.lock);
        if (!task.scheduled &&
            (in_event_thread() || state.current_callee.load(std::memory_order_acquire) != &task))
            return was_scheduled;
    }
}

} // namespace coherdma::dapl::event_thread

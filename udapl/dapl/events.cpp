// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "events.hpp"

#include "arena.hpp"
#include "async.hpp"
#include "clock.hpp"
#include "cm/connection.hpp"
#include "evd.hpp"
#include "lock.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

namespace coherdma::dapl::events {

namespace {

// Nothing here may have a destructor: while the program is in exit() the thread goes on.
struct {
    lock lives; ///< of starting and stopping
    unsigned users = 0;
    bool prepared = false;
    pthread_t thread = {};
    std::atomic<bool> leave = false;
    rdma_event_channel *channel = nullptr;
    int epoll = -1, bell = -1;

    lock guard; ///< of what follows
    task *first = nullptr;
    /// The watcher or task that is being called. Who takes one away waits until it is another.
    std::atomic<const void *> current = nullptr;
} here;

thread_local bool mine = false;

void ring() noexcept {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = write(here.bell, &one, sizeof one);
}

void call(watcher &what) noexcept {
    what.ready();
}
void call(task &what) noexcept {
    what.run();
}

/// With guard held; gives it up for the call.
template <class what>
void call_current(what &one) noexcept {
    here.current.store(&one, std::memory_order_relaxed);
    here.guard.unlock();
    call(one);
    here.current.store(nullptr); // seq_cst, for notify_all's look at who sleeps: see lock.cpp
    here.current.notify_all();
    here.guard.lock_it();
}

void wait_for_end_of(const void *what) noexcept {
    if (!in_thread())
        // acquire: what the call did is seen.
        while (here.current.load(std::memory_order_acquire) == what)
            here.current.wait(what, std::memory_order_acquire);
}

/// One of what is due. False: nothing is.
bool run_one() noexcept {
    task *const one = here.first;
    if (one == nullptr || one->due > deadline::now())
        return false;
    here.first = one->next;
    one->waiting = false;
    call_current(*one);
    return true;
}

bool call_one() noexcept {
    epoll_event event;
    if (epoll_wait(here.epoll, &event, 1, 0) <= 0)
        return false;
    if (event.data.ptr == nullptr) {
        std::uint64_t rung;
        [[maybe_unused]] const ssize_t was = read(here.bell, &rung, sizeof rung);
        return true;
    }
    call_current(*static_cast<watcher *>(event.data.ptr));
    return true;
}

/// Milliseconds to the first task; -1: there is none.
int rest() noexcept {
    if (here.first == nullptr)
        return -1;
    const std::int64_t wait = here.first->due - deadline::now();
    return wait <= 0 ? 0
                     : static_cast<int>(std::min<std::int64_t>((wait + 999999) / 1000000, 60000));
}

void *live(void *) noexcept {
    mine = true;
    pthread_setname_np(pthread_self(), "coherdma-dapl");
    pollfd any = {here.epoll, POLLIN, 0};
    here.guard.lock_it();
    while (!here.leave.load(std::memory_order_relaxed)) {
        // Between two calls nobody is kept waiting for the lock.
        const bool more = run_one();
        if (call_one() || more)
            continue;
        const int wait = rest();
        here.guard.unlock();
        poll(&any, 1, wait);
        here.guard.lock_it();
    }
    here.guard.unlock();
    return nullptr;
}

/// The program's signals are the program's threads'.
int make_thread() noexcept {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&here.thread, nullptr, live, nullptr);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return error;
}

void close_own() noexcept {
    for (int *each : {&here.epoll, &here.bell})
        if (*each >= 0)
            close(std::exchange(*each, -1));
}

void end() noexcept {
    if (here.channel != nullptr)
        rdma_destroy_event_channel(here.channel);
    here.channel = nullptr;
    close_own();
}

int make() noexcept {
    here.epoll = epoll_create1(EPOLL_CLOEXEC);
    here.bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (here.epoll < 0 || here.bell < 0)
        return errno;
    epoll_event wanted = {};
    wanted.events = EPOLLIN;
    if (epoll_ctl(here.epoll, EPOLL_CTL_ADD, here.bell, &wanted) != 0)
        return errno;
    here.channel = rdma_create_event_channel();
    if (here.channel == nullptr)
        return errno;
    const int fd = here.channel->fd;
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0 ||
        fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
        return errno;
    if (const int error = watch(fd, cm::dispatcher()))
        return error;
    here.leave.store(false, std::memory_order_relaxed);
    return make_thread();
}

/// The child has no thread, and what it inherited belongs to its parent.
void forget() noexcept {
    here.users = 0;
    here.first = nullptr;
    here.current.store(nullptr, std::memory_order_relaxed);
    if (here.channel != nullptr)
        close(here.channel->fd);
    here.channel = nullptr;
    close_own();
    cm::forget_goodbyes();
    forget_async();
    here.guard.unlock();
    here.lives.unlock();
}

void prepare_for_fork() noexcept {
    if (here.prepared)
        return;
    here.prepared = true;
    // What is registered last is called first. Who stops the thread holds a lock of these while the
    // thread may want the arena's; so that one is the last to be taken.
    arena::ready();
    pthread_atfork(
        [] {
            here.lives.lock_it();
            hold_async(); // before guard, as in hear_no_more
            cm::hold_goodbyes();
            here.guard.lock_it();
        },
        [] {
            here.guard.unlock();
            cm::go_on_with_goodbyes();
            go_on_async();
            here.lives.unlock();
        },
        forget);
}

} // namespace

int start() noexcept {
    const holding held(here.lives);
    prepare_for_fork();
    if (here.users == 0)
        if (const int error = make()) {
            end();
            return error;
        }
    ++here.users;
    return 0;
}

void stop() noexcept {
    bool last;
    {
        const holding held(here.lives);
        last = here.users == 1;
        here.users -= !last;
    }
    if (!last)
        return;
    // Nobody else is kept waiting for this, and may begin meanwhile.
    cm::await_answers();
    const holding held(here.lives);
    if (--here.users != 0)
        return;
    here.leave.store(true, std::memory_order_relaxed);
    ring();
    pthread_join(here.thread, nullptr);
    end();
}

rdma_event_channel *channel() noexcept {
    return here.channel;
}

bool in_thread() noexcept {
    return mine;
}

int watch(int fd, watcher &by) noexcept {
    epoll_event wanted = {};
    wanted.events = EPOLLIN;
    wanted.data.ptr = &by;
    return epoll_ctl(here.epoll, EPOLL_CTL_ADD, fd, &wanted) == 0 ? 0 : errno;
}

void let_go(int fd) noexcept {
    const holding held(here.guard);
    epoll_ctl(here.epoll, EPOLL_CTL_DEL, fd, nullptr);
}

void await_end_of(const watcher &by) noexcept {
    wait_for_end_of(&by);
}

void unwatch(int fd, watcher &by) noexcept {
    let_go(fd);
    await_end_of(by);
}

namespace {

/// With guard held; it is waiting.
void detach(const task &what) noexcept {
    task **place = &here.first;
    while (*place != &what)
        place = &(*place)->next;
    *place = what.next;
}

} // namespace

void at(task &what, std::int64_t due) noexcept {
    const holding held(here.guard);
    if (what.waiting) {
        if (what.due <= due)
            return;
        detach(what);
    }
    task **place = &here.first;
    while (*place != nullptr && (*place)->due <= due)
        place = &(*place)->next;
    what.due = due;
    what.waiting = true;
    what.next = *place;
    *place = &what;
    if (here.first == &what)
        ring();
}

namespace {

bool take_out(task &what) noexcept {
    const holding held(here.guard);
    if (!what.waiting)
        return false;
    detach(what);
    what.waiting = false;
    return true;
}

} // namespace

bool drop(task &what) noexcept {
    bool waited = false;
    for (;;) {
        waited = take_out(what) || waited;
        wait_for_end_of(&what);
        // Its run may have put it off once more, and it may run again already.
        const holding held(here.guard);
        if (!what.waiting && (in_thread() || here.current.load(std::memory_order_acquire) != &what))
            return waited;
    }
}

} // namespace coherdma::dapl::events

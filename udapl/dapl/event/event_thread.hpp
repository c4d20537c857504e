// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The event thread, one per process. It calls watchers of descriptors and scheduled tasks, and runs
// while an IA is open.
#pragma once

#include <cstdint>
#include <memory>
#include <pthread.h>

struct rdma_event_channel;

namespace coherdma::dapl {

/// Called by the event thread while its descriptor is readable.
struct fd_watcher {
    virtual void handle_readable() noexcept = 0;

  protected:
    ~fd_watcher() = default;
};

/// Called by the event thread at or soon after a given time.
struct timer_task {
    virtual void run() noexcept = 0;

    timer_task *next = nullptr;
    std::int64_t due_ns = 0; ///< as dat_deadline::now_ns()
    bool scheduled = false;

  protected:
    ~timer_task() = default;
};

namespace event_thread {

/// Called once, before start(): a fork that began before does not call the handlers.
void register_atfork() noexcept;
/// Called for each IA that is opened; the first starts the thread. 0 or an errno.
int start() noexcept;
/// Called for each IA that is closed; the last joins the thread, once it has deleted the
/// connections that wait for a DREP.
void stop() noexcept;

/// The event channel of all rdma_cm_ids, after start().
rdma_event_channel *channel() noexcept;
/// Keeps the channel until it is not shared any more, also after stop().
std::shared_ptr<rdma_event_channel> share_channel() noexcept;

/// Creates a thread that receives no signals of the consumer, except those of its own faults, so
/// that one of a CNO's agent, which the event thread calls, runs the consumer's handler. 0 or an
/// errno.
int create_thread(void *(*main)(void *) noexcept, void *arg, pthread_t &thread) noexcept;

/// Calls the watcher while fd is readable. 0 or an errno.
int watch(int fd, fd_watcher &watcher) noexcept;
/// On return the watcher is not being called, unless it is the caller.
void unwatch(int fd, fd_watcher &watcher) noexcept;
/// unwatch in two steps, for a caller that holds a lock which the watcher takes: after remove_fd
/// the descriptor may get another watcher; after wait_for_callback the watcher may be deleted.
void remove_fd(int fd) noexcept;
void wait_for_callback(const fd_watcher &watcher) noexcept;

/// Called by a watcher's handle_readable() that does not use the watcher any more: threads that
/// wait for the callback go on, and may delete the watcher.
void leave_callback() noexcept;

/// Runs the task once, at due_ns; a task that is already scheduled keeps the earlier time.
void schedule(timer_task &task, std::int64_t due_ns) noexcept;
/// True: it was scheduled. It may be running.
bool unschedule(timer_task &task) noexcept;
/// The same; on return the task is not running, unless it is the caller.
bool cancel(timer_task &task) noexcept;

bool in_event_thread() noexcept;

} // namespace event_thread
} // namespace coherdma::dapl

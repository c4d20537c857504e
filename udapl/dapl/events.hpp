// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The library's thread: one for the process. It waits for descriptors and for points in time, and
// does what has been put off. It lives while there are IAs.
#pragma once

#include <cstdint>

struct rdma_event_channel;

namespace coherdma::dapl {

/// Called by the thread when its descriptor has become readable.
struct watcher {
    virtual void ready() noexcept = 0;

  protected:
    ~watcher() = default;
};

/// Called by the thread at its time, or as soon as may be.
struct task {
    virtual void run() noexcept = 0;

    task *next = nullptr;
    std::int64_t due = 0; ///< as deadline::now()
    bool waiting = false;

  protected:
    ~task() = default;
};

namespace events {

/// For each IA that is open. 0 or an errno.
int start() noexcept;
/// The last one joins the thread.
void stop() noexcept;

/// The channel of all connections, from start on.
rdma_event_channel *channel() noexcept;

/// 0 or an errno.
int watch(int descriptor, watcher &by) noexcept;
/// When it returns, the watcher is not being called, unless by the caller.
void unwatch(int descriptor, watcher &by) noexcept;
/// The two halves of that, for who holds a lock that the watcher wants: the descriptor is free for
/// another watcher after the first, the watcher may go after the second.
void let_go(int descriptor) noexcept;
void await_end_of(const watcher &by) noexcept;

/// Runs it once, at due; a task that waits already keeps the earlier time.
void at(task &what, std::int64_t due) noexcept;
/// When it returns, the task does not run, unless it is the caller. True: it had been waiting.
bool drop(task &what) noexcept;

bool in_thread() noexcept;

} // namespace events
} // namespace coherdma::dapl

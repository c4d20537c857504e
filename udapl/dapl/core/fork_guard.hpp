// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// librdmacm, libibverbs and the C++ library's static variables have locks that belong to the
// process. In the child of a fork such a lock stays locked if another thread of the parent had it.
#pragma once

namespace coherdma::dapl {

/// Held during calls that take such locks: a fork waits for them. Any number of threads may hold
/// it, and a thread more than once.
class fork_guard {
  public:
    enum call_type { brief, blocking } const type; ///< blocking: for seconds, in the kernel
    explicit fork_guard(call_type call = brief) noexcept;
    ~fork_guard();
    fork_guard(const fork_guard &) = delete;
    fork_guard &operator=(const fork_guard &) = delete;

    // Around a fork.
    static void atfork_prepare() noexcept;
    static void atfork_parent() noexcept;
    static void atfork_child() noexcept;

    /// Of the thread, which lets a fork go first if it has none. The event thread has one more.
    static inline thread_local unsigned num_guards = 0;
};

} // namespace coherdma::dapl

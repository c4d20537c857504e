// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Threads of the program, and of the checker.
#pragma once

#include "reports/blocked_signals.hpp"

#include <cstdint>
#include <thread>

namespace coherdma::check {

struct stack_bounds {
    std::uintptr_t begin = 0, end = 0;
};
/// Of this thread, as it was started: a coroutine has another. Empty: not known.
stack_bounds bounds_of_stack() noexcept;

/// While one exists, this thread is in the checker: it may hold its mutexes. What it frees then,
/// and what a signal handler of the program calls that interrupts it, is not checked.
class checking_scope {
  public:
    checking_scope() noexcept {
        ++depth;
        if (disable_checks != nullptr)
            disable_checks();
    }
    ~checking_scope() {
        if (disable_checks != nullptr)
            enable_checks();
        --depth;
    }
    checking_scope(const checking_scope &) = delete;
    checking_scope &operator=(const checking_scope &) = delete;

    static bool is_active() noexcept { return depth != 0; }

    /// The memory sanitizer's: the checker is not compiled with it, and what it passes to the C
    /// library is not marked as initialized. nullptr: it does not run the program. Set before the
    /// first scope.
    using switch_function = void (*)();
    static inline constinit switch_function disable_checks = nullptr, enable_checks = nullptr;

  private:
    // initial-exec: free() must not allocate it.
    [[gnu::tls_model("initial-exec")]] static inline thread_local unsigned depth = 0;
};

/// A thread of the checker, which handles no signals of the program. Throws std::system_error.
template <class function>
std::thread start_thread(function func) {
    const reports::blocked_signals scope;
    return std::thread(func);
}

} // namespace coherdma::check

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The check of this process: its books, and its report, which ends with the process.
#pragma once

#include "books.hpp"
#include "registered_bounds.hpp"
#include "report_log.hpp"
#include "rules.hpp"
#include "sanitizers.hpp"
#include "settings.hpp"
#include "threads.hpp"

#include <atomic>
#include <mutex>
#include <new>

namespace coherdma::check {

/// Whether libcoherdma-late.so delivers the data of a request. Locks a mutex of its own only.
using late_holds_function = bool(const interposer::request &);
/// nullptr: it is not loaded.
late_holds_function *find_late_holds() noexcept;

/// Never destroyed: other threads call verbs while one is in exit().
struct process_check {
    explicit process_check(const settings &process_config)
        : config(process_config)
        , log(process_config)
        , watcher(sanitizers::find())
        , late_holds(config.late ? find_late_holds() : nullptr) {
        books.watcher = watcher.get();
    }

    const settings config;
    report_log log;
    std::mutex mutex; ///< protects the books
    process_books books;
    const std::unique_ptr<sanitizers> watcher; ///< nullptr: no sanitizer runs the program
    late_holds_function *const late_holds;     ///< nullptr: the settings do not ask for it
    process_check *parents = nullptr; ///< of fork(): kept, so that a leak checker finds none
};

inline constinit registered_bounds all_registered;

/// nullptr: no device was opened.
inline constinit std::atomic<process_check *> current_check = nullptr;

/// A device is opened. Throws std::bad_alloc.
void start_check();
/// Writes the summary, but keeps the exit status: a sanitizer ends the process.
void end_check() noexcept;
/// In a child of fork(): the parent's threads may hold its mutexes. What the child opens is checked
/// by its own books.
void reset_check_after_fork() noexcept;

/// A look at the books, with the findings that are reported when they are not locked any more.
class locked_books {
  public:
    explicit locked_books(process_check &process)
        : books(process.books)
        , process_(process)
        , lock_(process.mutex) {}
    ~locked_books();
    locked_books(const locked_books &) = delete;
    locked_books &operator=(const locked_books &) = delete;

    [[nodiscard]] process_check &process() const noexcept { return process_; }
    [[nodiscard]] const settings &config() const noexcept { return process_.config; }

    process_books &books;
    findings results;

  private:
    const checking_scope scope_;
    const unseen_scope unseen_;
    process_check &process_;
    std::unique_lock<std::mutex> lock_;
};

/// Calls func(locked books), if a device was opened and this thread is not in the checker. Without
/// memory the call is not checked.
template <class function>
void with_books(function func) noexcept {
    process_check *const process = current_check.load(std::memory_order_acquire);
    if (process == nullptr || checking_scope::is_active())
        return;
    try {
        locked_books locked(*process);
        func(locked);
    } catch (const std::bad_alloc &) {
    }
}

} // namespace coherdma::check

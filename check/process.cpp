// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "process.hpp"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <unistd.h>

namespace coherdma::check {
namespace {

std::mutex start_mutex;

/// Writes the summary; ends the process if the settings have a status for findings.
void report_end(process_check &process) {
    if (process.config.report_leaks)
        with_books([](locked_books &locked) { find_leaks(locked.books, locked.results); });
    const std::size_t num_findings = process.log.write_summary();
    if (num_findings == 0 || process.config.exit_status == 0)
        return;
    std::fflush(nullptr);
    _exit(process.config.exit_status);
}

/// Runs after the program's own destructors, which may destroy objects.
[[gnu::destructor]] void report_at_exit() noexcept {
    process_check *const process = current_check.load();
    if (process == nullptr)
        return;
    try {
        report_end(*process);
    } catch (const std::bad_alloc &) { // without memory there is no summary
    }
}

void report_at_quick_exit() noexcept {
    report_at_exit();
}

} // namespace

void registered_bounds::add(std::uintptr_t range_begin, std::uintptr_t range_end) noexcept {
    // Relaxed: the thread that frees memory of a request has the request from a thread that
    // registered the memory before.
    for (std::uintptr_t old = begin.load(std::memory_order_relaxed);
         range_begin < old &&
         !begin.compare_exchange_weak(old, range_begin, std::memory_order_relaxed);) {
    }
    for (std::uintptr_t old = end.load(std::memory_order_relaxed);
         range_end > old &&
         !end.compare_exchange_weak(old, range_end, std::memory_order_relaxed);) {
    }
}

void start_check() {
    const std::lock_guard guard(start_mutex);
    if (current_check.load() != nullptr)
        return;
    static const bool has_handler = std::at_quick_exit(report_at_quick_exit) == 0;
    static_cast<void>(has_handler);
    // Release: a thread that sees it sees its members.
    current_check.store(new process_check(read_settings()), std::memory_order_release);
}

void reset_check_after_fork() noexcept {
    current_check.store(nullptr);
    new (&start_mutex) std::mutex;
}

locked_books::~locked_books() {
    lock_.unlock();
    try {
        for (const finding &reported : results)
            process_.log.report(reported);
    } catch (const std::bad_alloc &) { // without memory it is not reported
    }
}

} // namespace coherdma::check

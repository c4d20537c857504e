// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "process.hpp"

#include "reports/end_signals.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <exception>
#include <memory>
#include <pthread.h>
#include <semaphore>
#include <stdio_ext.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace coherdma::check {
namespace {

std::mutex start_mutex;
process_check *inherited_check = nullptr; ///< of the parent of this process; see parents

/// Of the page guard.
bool handle_access(const refused_access &access) noexcept {
    const handler_scope scope;
    if (!all_registered.overlap(access.addr, access.addr + 1))
        return false;
    // Active: this thread may hold the mutex of the books. nullptr: it is a child of fork().
    if (checking_scope::is_active() || current_check.load() == nullptr) {
        page_guard::open(access.addr, access.addr + 1);
        return true;
    }
    bool is_protected = false;
    with_books([&](locked_books &locked) {
        is_protected = check_access(locked.books, access, locked.results);
    });
    return is_protected;
}

/// By a thread that the end does not wait for: another one may read a stream, which it has locked.
void flush_streams() noexcept {
    constexpr std::chrono::seconds PATIENCE(1);
    try {
        const auto is_done = std::make_shared<std::binary_semaphore>(0);
        start_thread([is_done] {
            std::fflush(nullptr);
            is_done->release();
        }).detach();
        static_cast<void>(is_done->try_acquire_for(PATIENCE));
    } catch (const std::exception &) { // no memory, or no more threads
        std::fflush(nullptr);
    }
}

/// Writes the summary; ends the process if the settings have a status for findings.
void report_end(process_check &process) {
    if (process.config.report_leaks)
        with_books([](locked_books &locked) { find_leaks(locked.books, locked.results); });
    // What runs after this may use memory of requests.
    with_books([](locked_books &locked) { locked.books.owned.forget(0, UINTPTR_MAX); });
    const checking_scope scope;
    const std::size_t num_findings = process.log.write_summary();
    if (num_findings == 0 || process.config.exit_status == 0)
        return;
    // As exit() does, without the locks: another thread may hold that of stdin while it reads.
    for (std::FILE *const stream : {stdin, stdout, stderr})
        __fsetlocking(stream, FSETLOCKING_BYCALLER);
    flush_streams();
    _exit(process.config.exit_status);
}

/// Runs after the program's own destructors, which may destroy objects.
[[gnu::destructor]] void report_at_exit() noexcept {
    process_check *const process = current_check.load();
    // Active: exit() was called by a signal handler that has interrupted the checker.
    if (process == nullptr || checking_scope::is_active())
        return;
    try {
        report_end(*process);
    } catch (const std::bad_alloc &) { // without memory there is no summary
    }
}

void report_at_quick_exit() noexcept {
    report_at_exit();
}

/// The signal, not a status for findings, ends the process.
void report_at_signal() noexcept {
    process_check *const process = current_check.load();
    if (process == nullptr)
        return;
    if (process->config.report_leaks)
        with_books([](locked_books &locked) { find_leaks(locked.books, locked.results); });
    end_check();
}

/// Whether a report can be made on the stack of this thread: names are looked up, and that takes
/// much of it. Coroutines have other stacks, which are small.
bool has_room_on_stack() noexcept {
    constexpr std::uintptr_t NEEDED = 256 << 10;
    const stack_bounds stack = bounds_of_stack();
    const auto current = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
    return current > stack.begin && current < stack.end && current - stack.begin >= NEEDED;
}

void report_all(report_log &log, const findings &results) noexcept {
    try {
        for (const finding &reported : results)
            log.report(reported);
    } catch (const std::bad_alloc &) { // without memory it is not reported
    }
}

/// By another thread. This one may have the dynamic linker's lock, which the other needs: then it
/// is reported later.
void report_aside(report_log &log, findings results) noexcept {
    struct shared_state {
        findings results;
        std::binary_semaphore is_done{0};
    };
    constexpr std::chrono::seconds PATIENCE(2);
    for (finding &reported : results)
        reported.thread = gettid();
    try {
        const auto shared = std::make_shared<shared_state>();
        shared->results = std::move(results);
        start_thread([&log, shared] {
            const checking_scope scope;
            report_all(log, shared->results);
            shared->is_done.release();
        }).detach();
        static_cast<void>(shared->is_done.try_acquire_for(PATIENCE));
    } catch (const std::system_error &) { // no more threads: it is not reported
    } catch (const std::bad_alloc &) {
    }
}

} // namespace

late_holds_function *find_late_holds() noexcept {
    void *const module = dlopen("libcoherdma-late.so", RTLD_NOW | RTLD_NOLOAD);
    return module != nullptr
               ? reinterpret_cast<late_holds_function *>(dlsym(module, "coherdma_late_holds"))
               : nullptr;
}

void start_check() {
    const std::lock_guard guard(start_mutex);
    if (current_check.load() != nullptr)
        return;
    static const bool has_handler = std::at_quick_exit(report_at_quick_exit) == 0;
    static_cast<void>(has_handler);
    auto *const process = new process_check(read_settings());
    if (process->config.ownership)
        process->books.owned.start(process->config.protect ? handle_access : nullptr);
    if (process->watcher != nullptr)
        explain_sanitizer_reports();
    try {
        reports::report_before_end_by_signal(report_at_signal, checking_scope::is_active);
    } catch (const std::system_error &) { // no more threads: a signal ends it without a summary
    }
    // Release: a thread that sees it sees its members.
    current_check.store(process, std::memory_order_release);
}

void end_check() noexcept {
    process_check *const process = current_check.load(std::memory_order_acquire);
    if (process == nullptr || checking_scope::is_active())
        return;
    try {
        const checking_scope scope;
        process->log.write_summary();
    } catch (const std::bad_alloc &) { // without memory there is no summary
    }
}

void reset_check_after_fork() noexcept {
    process_check *const process = current_check.exchange(nullptr);
    if (process != nullptr)
        process->parents = std::exchange(inherited_check, process);
    // Another thread of the parent may have been in the checker: what it changed is left then, and
    // handle_access() opens pages that are protected.
    if (process != nullptr && process->mutex.try_lock()) {
        if (process->watcher != nullptr)
            process->watcher->unpoison_all();
        process->books.owned.pages().forget(0, UINTPTR_MAX);
    }
    new (&start_mutex) std::mutex;
}

locked_books::~locked_books() {
    lock_.unlock();
    if (results.empty())
        return;
    if (has_room_on_stack())
        report_all(process_.log, results);
    else
        report_aside(process_.log, std::move(results));
}

} // namespace coherdma::check

/// For libcoherdma-late.so: calls copy(arg) while the pages of the range can be used, which the
/// checker may protect. False: there is no checker that does.
extern "C" [[gnu::visibility("default")]] bool coherdma_check_lend(std::uintptr_t begin,
                                                                   std::uintptr_t end,
                                                                   void (*copy)(void *),
                                                                   void *arg) noexcept {
    bool is_lent = false;
    coherdma::check::with_books([&](coherdma::check::locked_books &locked) {
        is_lent = locked.books.owned.is_started();
        if (is_lent)
            locked.books.owned.pages().lend(begin, end, [=] { copy(arg); });
    });
    return is_lent;
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "process.hpp"

#include "devices.hpp"
#include "out_of_memory.hpp"
#include "peer_ipc.hpp"
#include "reports/blocked_signals.hpp"
#include "reports/end_signals.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <new>
#include <pthread.h>
#include <string>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace coherdma::emulation {
namespace {

/// Moves, poisons or marks lines while the program makes no call.
void run_background_thread() noexcept {
    using std::chrono::steady_clock;
    // Mode stale only marks lines that have been stale for a second.
    const std::chrono::microseconds min_pause{
        process_state().config.mode == cache_mode::STALE ? 100000 : 500};
    constexpr int PAUSE_FACTOR = 4; // uses at most a fifth of a CPU
    pthread_setname_np(pthread_self(), "coherdma-cache");
    for (auto pause = steady_clock::duration(min_pause);;) {
        std::this_thread::sleep_for(pause);
        const auto begin = steady_clock::now();
        try {
            process_state().cache.run_background_step();
        } catch (const std::bad_alloc &) { // the next step tries again
        }
        pause = std::max<steady_clock::duration>(min_pause,
                                                 PAUSE_FACTOR * (steady_clock::now() - begin));
    }
}

/// The thread handles no signal of the program.
void start_background_thread() {
    const reports::blocked_signals scope;
    std::thread(run_background_thread).detach();
}

/// Whether there are findings that only the end of the process shows.
bool find_at_end(cache_model::process_end cause) noexcept {
    bool has_findings = false;
    peer_ipc::close_slot();
    unless_out_of_memory([&] { has_findings = process_state().cache.on_process_end(cause); });
    return has_findings;
}

/// Returns the number of all findings.
std::size_t report_end() noexcept {
    std::size_t num_findings = 0;
    unless_out_of_memory([&] {
        process_state().cache.report_process_end();
        process_state().cache.unlink_shm();
        num_findings = process_state().log.write_summary();
    });
    return num_findings;
}

/// Reports, and ends the process if the settings have a status for findings.
void report_and_exit() noexcept {
    const std::size_t num_findings = report_end();
    if (num_findings == 0 || process_state().config.exit_status == 0)
        return;
    std::fflush(nullptr);
    _exit(process_state().config.exit_status);
}

/// Whether this thread can report: a signal handler that calls exit() may have interrupted a
/// report.
bool can_report() noexcept {
    constexpr char TEXT[] = "coherdma: emulation: no report at the end: exit() was called by a "
                            "signal handler that interrupted the report of a finding\n";
    if (!reporting_mutex::is_reporting())
        return true;
    [[maybe_unused]] const auto written = write(STDERR_FILENO, TEXT, sizeof TEXT - 1);
    return false;
}

/// While a thread reports at the exit. Threads may call exit() at the same time: each runs the
/// handlers that no other has begun, and then ends the process.
std::recursive_mutex exit_mutex; // a handler of a signal may call exit() again
bool is_report_due = false;      ///< the destructors of the program run; with exit_mutex

/// Handler of atexit(), called before the program's destructors free registered memory. They may
/// sync it, too: then what was found is reported after them.
void report_at_exit() noexcept {
    const std::lock_guard guard(exit_mutex);
    if (!has_process_state() || !can_report()) // a child of fork() that opened no device has none
        return;
    is_report_due = find_at_end(cache_model::process_end::EXIT);
    if (!is_report_due)
        report_and_exit();
}

[[gnu::destructor]] void report_after_destructors() noexcept {
    const std::lock_guard guard(exit_mutex);
    if (is_report_due && has_process_state())
        report_and_exit();
}

/// Handler of at_quick_exit(): there are no destructors.
void report_at_quick_exit() noexcept {
    if (!has_process_state() || !can_report())
        return;
    find_at_end(cache_model::process_end::EXIT);
    report_and_exit();
}

void report_at_signal() noexcept {
    find_at_end(cache_model::process_end::SIGNAL);
    report_end();
}

std::mutex start_mutex;
bool has_background_thread = false, is_started = false; ///< this process; with start_mutex

} // namespace

void start_process(const settings &config) {
    const std::lock_guard guard(start_mutex);
    if (is_started)
        return;
    static const bool has_handlers =
        std::atexit(report_at_exit) == 0 && std::at_quick_exit(report_at_quick_exit) == 0;
    static_cast<void>(has_handlers);
    if (!has_background_thread && process_state().cache.needs_thread())
        start_background_thread(); // throws if the process may have no more threads
    has_background_thread = true;  // also if what follows throws, and the program tries again
    try {
        reports::report_before_end_by_signal(report_at_signal, call_scope::exists);
    } catch (const std::system_error &problem) {
        process_state().log.note(std::string("no report if a signal ends the process: ") +
                                 problem.what());
    }
    is_started = true;
    if (config.mode != cache_mode::PASSTHROUGH)
        peer_ipc::open_slot();
}

/// The child has no threads and no slot; threads of the parent may have held any mutex.
void reset_process_after_fork() {
    new (&start_mutex) std::mutex;
    new (&exit_mutex) std::recursive_mutex;
    reset_devices_after_fork();
    peer_ipc::reset_after_fork();
    has_background_thread = is_started = false;
}

} // namespace coherdma::emulation

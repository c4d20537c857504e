// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "process.hpp"

#include "reports/end_signals.hpp"

#include <cstdlib>
#include <new>
#include <system_error>

namespace coherdma::faults {
namespace {

settings current_settings; ///< for children of fork()

void end_record() noexcept {
    process_faults *const process = current_faults.load();
    if (process == nullptr || recording_scope::is_active())
        return;
    const recording_scope scope;
    try {
        process->log.write_summary(process->schedule);
    } catch (const std::bad_alloc &) { // without memory there is no summary
    }
}

/// Runs after the program's own destructors, which may destroy objects.
[[gnu::destructor]] void end_record_at_exit() noexcept {
    end_record();
}

} // namespace

void start_faults(const settings &config) {
    current_settings = config;
    static const bool has_handler = std::at_quick_exit(end_record) == 0;
    static_cast<void>(has_handler);
    // Release: a thread that sees it sees its members.
    current_faults.store(new process_faults(config), std::memory_order_release);
    try {
        reports::report_before_end_by_signal(end_record, recording_scope::is_active);
    } catch (const std::system_error &) { // no more threads: a signal ends it without a summary
    }
}

void reset_faults_after_fork() noexcept {
    process_faults *const parents = current_faults.load();
    if (parents == nullptr)
        return;
    try {
        auto *const process = new process_faults(current_settings);
        process->parents = parents;
        current_faults.store(process, std::memory_order_release);
    } catch (const std::bad_alloc &) { // the child has no faults
        current_faults.store(nullptr);
    }
}

} // namespace coherdma::faults

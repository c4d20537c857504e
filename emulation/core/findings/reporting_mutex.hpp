// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "kept_finding.hpp"

#include <csignal>
#include <deque>
#include <mutex>

namespace coherdma::emulation {

/// A mutex. Findings that are added while it is locked are reported when it has been unlocked, by
/// the thread that did, and in their order: a report loads symbols, which takes long, or may wait
/// for the reader of a pipe, and other threads must not wait for that. While a thread has it, it
/// handles no signals: a handler may call exit(), which locks it.
class reporting_mutex {
  public:
    explicit reporting_mutex(finding_log &log)
        : log_(log) {}

    void lock() noexcept;
    void unlock() noexcept;
    /// While it is locked.
    void add(finding added);
    /// While it is not locked: returns when all that were added have been reported.
    void report_all();
    /// For a signal handler: whether it has interrupted a report of this thread, which has the
    /// mutexes that another one needs.
    [[nodiscard]] static bool is_reporting() noexcept;

  private:
    finding_log &log_;
    std::mutex mutex_;
    sigset_t signal_mask_{};         ///< of the thread that has it, before
    std::deque<kept_finding> found_; ///< not reported yet
    bool has_added_ = false;         ///< since it was locked
    std::mutex report_mutex_;        ///< of the thread that reports
};

} // namespace coherdma::emulation

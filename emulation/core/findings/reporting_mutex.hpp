// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "kept_finding.hpp"

#include <deque>
#include <mutex>

namespace coherdma::emulation {

/// A mutex. Findings that are added while it is locked are reported when it has been unlocked, by
/// the thread that did, and in their order: a report loads symbols, which takes long, or may wait
/// for the reader of a pipe, and other threads must not wait for that.
class reporting_mutex {
  public:
    explicit reporting_mutex(finding_log &log) noexcept
        : log_(log) {}

    void lock() { mutex_.lock(); }
    void unlock() noexcept;
    /// While it is locked.
    void add(finding added);
    /// While it is not locked: returns when all that were added have been reported.
    void report_all();

  private:
    finding_log &log_;
    std::mutex mutex_;
    std::deque<kept_finding> found_; ///< not reported yet
    bool has_added_ = false;         ///< since it was locked
    std::mutex report_mutex_;        ///< of the thread that reports
};

} // namespace coherdma::emulation

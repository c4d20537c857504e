// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "reporting_mutex.hpp"

#include "reports/blocked_signals.hpp"

#include <utility>

namespace coherdma::emulation {
namespace {

// initial-exec: a handler must not allocate it. volatile: a handler reads it in between.
[[gnu::tls_model("initial-exec")]] thread_local volatile bool has_report = false;

/// While it exists, this thread reports.
class report_scope {
  public:
    report_scope() noexcept { has_report = true; }
    ~report_scope() { has_report = false; }
    report_scope(const report_scope &) = delete;
    report_scope &operator=(const report_scope &) = delete;
};

} // namespace

bool reporting_mutex::is_reporting() noexcept {
    return has_report;
}

void reporting_mutex::lock() noexcept {
    const sigset_t mask = reports::block_asynchronous_signals();
    mutex_.lock();
    signal_mask_ = mask;
}

void reporting_mutex::add(finding added) {
    found_.emplace_back(std::move(added));
    has_added_ = true;
}

void reporting_mutex::unlock() noexcept {
    const bool has_added = std::exchange(has_added_, false);
    const sigset_t mask = signal_mask_;
    mutex_.unlock();
    pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    if (!has_added)
        return;
    try {
        report_all();
    } catch (...) { // without memory the finding is lost
    }
}

/// A thread that finds another one reporting waits for it, and then reports what that has left.
void reporting_mutex::report_all() {
    const report_scope scope;
    const std::lock_guard report_guard(report_mutex_);
    for (;;) {
        std::unique_lock guard(mutex_);
        if (found_.empty())
            return;
        const kept_finding next = std::move(found_.front());
        found_.pop_front();
        guard.unlock();
        log_.report(next.get());
    }
}

} // namespace coherdma::emulation

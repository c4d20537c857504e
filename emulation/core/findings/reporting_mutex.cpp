// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "reporting_mutex.hpp"

#include <utility>

namespace coherdma::emulation {

void reporting_mutex::add(finding added) {
    found_.emplace_back(std::move(added));
    has_added_ = true;
}

void reporting_mutex::unlock() noexcept {
    const bool has_added = std::exchange(has_added_, false);
    mutex_.unlock();
    if (!has_added)
        return;
    try {
        report_all();
    } catch (...) { // without memory the finding is lost
    }
}

/// A thread that finds another one reporting waits for it, and then reports what that has left.
void reporting_mutex::report_all() {
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

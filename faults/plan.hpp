// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Which calls and requests of this process a scenario is to change.
#pragma once

#include "scenario.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace coherdma::faults {

/// A fault that is due.
struct due_fault {
    const fault *cause = nullptr; ///< nullptr: none is
    std::uint64_t count = 0; ///< the number of the call or request, from 1, among those it names
};

/// What a scenario calls a queue pair.
struct queue_identity {
    std::uint64_t number = 0;                    ///< from 1, in the order of creation; 0: of an SRQ
    std::string_view peer = {}, other_peer = {}; ///< its address, of each kind; "": unknown
};

/// Thread-safe. The same calls get the same faults, whatever the threads: what is random depends on
/// the seed, the fault, and the number of the call.
class plan {
  public:
    using time_point = std::chrono::steady_clock::time_point;

    plan(std::vector<fault> faults, std::uint64_t seed);

    /// The process has opened a device; only the first time counts.
    void start(time_point now) noexcept;

    /// A call begins. Calls report(due) for each fault of it that is due; only the first of those
    /// that make it fail has an effect.
    template <class function>
    void count_call(std::string_view name, time_point now, function report) {
        bool fails = false;
        for (std::size_t i = 0; i < faults_.size(); ++i) {
            if (faults_[i].call != name)
                continue;
            const due_fault due = count(i, now);
            if (due.cause == nullptr || (fails && due.cause->effect == action::FAIL))
                continue;
            fails = fails || due.cause->effect == action::FAIL;
            report(due);
        }
    }
    /// A request of this class, which is not REQUEST, is posted.
    due_fault count_request(request_class, const queue_identity &, time_point now) noexcept;
    /// Whether a fault is of some queue pairs only.
    [[nodiscard]] bool selects_queues() const noexcept;

    /// How late the driver gets the sends of the process's queue pair of this number; nullptr: not
    /// late.
    [[nodiscard]] const fault *find_delay(std::uint64_t qp_number) const noexcept;

    /// The events that a device is to have which is opened now, with their times.
    struct event {
        const fault *cause = nullptr;
        time_point time;
    };
    [[nodiscard]] std::vector<event> list_events(time_point now) const;
    /// It is delivered.
    void count_event(const fault &) noexcept;

    [[nodiscard]] const std::vector<fault> &faults() const noexcept { return faults_; }
    /// Calls or requests that this fault names, so far.
    [[nodiscard]] std::uint64_t num_counted(std::size_t fault_index) const noexcept;

  private:
    /// Counts a call or request that the fault names.
    due_fault count(std::size_t index, time_point now) noexcept;

    const std::vector<fault> faults_;
    const std::uint64_t seed_;
    const std::unique_ptr<std::atomic<std::uint64_t>[]> counts_; ///< of each fault
    std::atomic<time_point::rep> start_ = 0;                     ///< 0: no device is open
};

} // namespace coherdma::faults

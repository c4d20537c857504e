// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The faults of this process, and their record, which ends with the process.
#pragma once

#include "async_events.hpp"
#include "device_limits.hpp"
#include "failing_requests.hpp"
#include "plan.hpp"
#include "queue_pairs.hpp"
#include "record.hpp"
#include "settings.hpp"

#include <algorithm>
#include <atomic>

namespace coherdma::faults {

/// Never destroyed: other threads call verbs while one is in exit().
struct process_faults {
    explicit process_faults(const settings &config)
        : schedule(config.faults, config.seed)
        , log(config.log_file, config.records_calls)
        , selects_queues(schedule.selects_queues())
        , has_events(std::any_of(config.faults.begin(), config.faults.end(),
                                 [](const fault &each) { return each.effect == action::EVENT; })) {}

    plan schedule;
    record log;
    device_limits limits{schedule.faults()};
    queue_pairs qps;
    const bool selects_queues;
    failing_requests requests;
    async_events events; ///< used only if the scenario has some
    const bool has_events;
    process_faults *parents = nullptr; ///< of fork(): kept, so that a leak checker finds none
};

/// nullptr: the environment asks for no faults.
inline constinit std::atomic<process_faults *> current_faults = nullptr;

/// Throws std::bad_alloc.
void start_faults(const settings &);
/// In a child of fork(): it counts from the beginning.
void reset_faults_after_fork() noexcept;

/// While it exists, this thread is in the record, and a signal handler that has interrupted it
/// there and calls exit() must not wait for it.
class recording_scope {
  public:
    recording_scope() noexcept { ++depth; }
    ~recording_scope() { --depth; }
    recording_scope(const recording_scope &) = delete;
    recording_scope &operator=(const recording_scope &) = delete;
    static bool is_active() noexcept { return depth != 0; }

  private:
    // initial-exec: it may be read in a signal handler, where nothing is allocated.
    [[gnu::tls_model("initial-exec")]] static inline thread_local unsigned depth = 0;
};

} // namespace coherdma::faults

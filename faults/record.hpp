// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What was done to this process: lines of JSON in the log, or text on stderr if there is none.
#pragma once

#include "interposer/observer.hpp"
#include "plan.hpp"
#include "reports/log_file.hpp"
#include "reports/stack_trace.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace coherdma::faults {

/// Thread-safe.
class record {
  public:
    using clock = std::chrono::steady_clock;

    /// records_calls: the summary has each call of the program.
    record(std::string log_file, bool records_calls);

    /// The call fails, or takes its time.
    void note_call(const due_fault &, const char *call);
    /// The device gets the request so that it fails.
    void note_request(const due_fault &, const interposer::request &, std::uint32_t qp_num);
    /// The program gets this request, the first of its queue that fails, with the status of the
    /// fault.
    void note_completion(const fault &, const interposer::request &, std::uint32_t qp_num);
    /// The request did not fail by the fault.
    void note_failed_attempt(const fault &, const interposer::request &, const char *reason);

    /// The program gets the event of this device; or not: why.
    void note_event(const fault &, const char *device);
    void note_failed_event(const fault &, const char *device, const std::string &reason);

    /// The device will get the sends of the process's queue pair of this number late.
    void note_late_queue(const fault &, std::uint64_t qp_number);

    /// The program has learned a limit that is not the device's.
    void note_limit(const fault &limit);
    /// A call fails, as it exceeds a limit.
    void note_refusal(const fault &limit, int error, std::uint64_t asked);

    /// The process has opened a device.
    void note_device(const char *device);
    /// For the list of calls.
    void add_call(const char *call);
    void add_object(interposer::object_kind);
    void remove_object(interposer::object_kind);

    /// Once; nothing after that.
    void write_summary(const plan &);

  private:
    struct recorded_call {
        std::string name;
        reports::stack_trace stack;
        std::uint64_t first = 0; ///< its first one is that many-th call of the name
        std::uint64_t count = 0;
    };

    struct fault_counts {
        /// Calls and sends that failed, receives that the program polled with the status.
        std::uint64_t done = 0;
        std::uint64_t events = 0;
    };

    struct entry; ///< of the log
    /// Counts an event of the fault. False: there is no line for it, as there are many.
    bool wants_line(const fault &, int done);
    entry begin_entry(const fault &) const;
    void write(const fault &, const entry &);
    void write_line(const std::string &json_line);
    fault_counts &counts_of(std::size_t fault_index);

    const bool records_calls_;
    const clock::time_point begin_ = clock::now();
    std::mutex mutex_; ///< protects the following
    reports::log_file log_;
    const bool has_log_;
    bool has_device_ = false, is_ended_ = false, has_problem_ = false;
    std::vector<fault_counts> counts_;               ///< by the index of the fault
    std::map<std::string, std::uint64_t> num_calls_; ///< by name
    std::vector<recorded_call> calls_;               ///< in the order of their first ones
    std::map<interposer::object_kind, long> objects_;
};

} // namespace coherdma::faults

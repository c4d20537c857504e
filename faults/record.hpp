// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What was done to this process: lines of JSON in the log, or text on stderr if there is none.
#pragma once

#include "interposer/observer.hpp"
#include "plan.hpp"
#include "reports/log_file.hpp"

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
    /// The device has completed the request without an error, or refused it.
    void note_failed_attempt(const fault &, const interposer::request &, const char *reason);

    void note_device() noexcept;
    /// For the list of calls.
    void add_call(const char *call);
    void add_object(interposer::object_kind) noexcept;
    void remove_object(interposer::object_kind) noexcept;

    /// Once; nothing after that.
    void write_summary(const plan &);

  private:
    struct recorded_call {
        std::string name;
        const void *place = nullptr; ///< the return address in the program
        std::uint64_t first = 0;     ///< its first one is that many-th call of the name
        std::uint64_t count = 0;
    };

    struct entry; ///< of the log
    entry begin_entry(const fault &) const;
    void count_done(const fault &);
    void write(const fault &, const entry &);

    const bool records_calls_;
    const clock::time_point begin_ = clock::now();
    std::mutex mutex_; ///< protects the following
    reports::log_file log_;
    const bool has_log_;
    bool has_device_ = false, is_ended_ = false;
    std::map<std::string, std::uint64_t> num_done_, num_lines_; ///< by the text of the fault
    std::map<std::string, std::uint64_t> num_calls_;            ///< by name
    std::vector<recorded_call> calls_; ///< in the order of their first ones
    std::map<interposer::object_kind, long> objects_;
};

} // namespace coherdma::faults

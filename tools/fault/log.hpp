// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Parses the logs of the processes in which faults were made (COHERDMA_FAULT_LOG), one file per
// process.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tools::fault {

/// What was done to a process.
struct event {
    double seconds = 0; ///< since the process started
    long pid = 0;
    std::string program, fault, text;
    std::string place; ///< of a call in a run that records calls: where the program makes it
    nlohmann::ordered_json json;
};

/// A fault of the scenario.
struct fault_count {
    std::uint64_t counted = 0; ///< calls or requests that it names
    long done = 0;             ///< of them: calls and sends that failed, receives polled as failed
};

struct process {
    long pid = 0;
    std::string program;
    bool has_device = false;
    std::string first_device; ///< that it has opened; "": none
    bool is_complete = false; ///< it wrote its summary at its end
    /// By their text; of a process without a summary, nothing is counted, and done are the events.
    std::map<std::string, fault_count> faults;
    std::map<std::string, long> left; ///< objects by kind
    struct call {
        std::string name, place;
        std::uint64_t first = 0, count = 0;
    };
    std::vector<call> calls;
};

struct run_log {
    std::vector<process> processes;
    std::vector<event> events; ///< in the order of their times within a process

    [[nodiscard]] bool has_device() const noexcept;
    /// A device that a process has opened; "": none has.
    [[nodiscard]] std::string first_device() const;
    /// A fault was made.
    [[nodiscard]] bool has_effect() const noexcept;
    /// Of all processes.
    [[nodiscard]] fault_count sum_of(const std::string &fault) const;
    /// Processes that ended by a signal, or by _exit().
    [[nodiscard]] std::size_t num_without_summary() const noexcept;
};

/// Adds the records of a log file; invalid lines are skipped.
void read_log(const std::string &text, long pid, run_log &result);
/// Reads all files PID.json of a folder.
run_log read_logs(const std::string &folder);

} // namespace tools::fault

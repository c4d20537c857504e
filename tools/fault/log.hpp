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
    nlohmann::ordered_json json;
};

/// A fault of the scenario.
struct fault_count {
    std::uint64_t counted = 0; ///< calls or requests that it names
    std::uint64_t done = 0;    ///< of them
};

struct process {
    long pid = 0;
    std::string program;
    bool has_device = false;
    bool is_complete = false; ///< it wrote its summary at its end
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
    /// Something was done.
    [[nodiscard]] bool has_effect() const noexcept { return !events.empty(); }
};

/// Adds the records of a log file; invalid lines are skipped.
void read_log(const std::string &text, long pid, run_log &result);
/// Reads all files PID.json of a folder.
run_log read_logs(const std::string &folder);

} // namespace tools::fault

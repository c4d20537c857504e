// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Parses the logs that emulated processes write (COHERDMA_EMULATE_LOG), one file per process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tools::emulate {

/// A process that used an emulated device.
struct process {
    long pid = 0;
    /// It wrote its summary at exit, and no invalid lines: no finding is missing.
    bool complete = false;
    std::size_t findings = 0, suppressed = 0, repeated = 0; ///< numbers in the summary
};

/// One run of the command in one mode.
struct run_result {
    std::string emulation_mode; ///< COHERDMA_EMULATE: "stale", "poison" ...
    int status = 0;             ///< the command's exit status
    std::vector<process> processes;
    std::vector<nlohmann::ordered_json> findings; ///< not suppressed, as logged

    [[nodiscard]] bool was_emulated() const noexcept { return !processes.empty(); }
    /// Each process logged its summary, so no findings are missing.
    [[nodiscard]] bool has_all_summaries() const noexcept;
    /// The number of findings, including those that were not logged.
    [[nodiscard]] std::size_t num_findings() const noexcept;
    [[nodiscard]] std::size_t num_suppressed() const noexcept;
    [[nodiscard]] std::size_t num_repeated() const noexcept;
};

struct logged_finding {
    std::string mode;
    const nlohmann::ordered_json *json; ///< in its run_result
};

/// Findings with the same kind, missing sync, request and memory registration: probably fixed by
/// the same change.
struct code_location {
    std::string kind, device, missing;
    std::uint64_t region = 0, region_length = 0;
    std::int64_t begin = 0, end = 0; ///< offsets of all lines from the start of the region
    std::string request, sync;       ///< "" if not known
    /// Each with the call and its callers.
    std::vector<std::string> request_stack, sync_stack, registration_stack;
    std::size_t num_findings = 0;
    std::map<std::string, std::size_t> num_findings_by_mode;
    std::vector<logged_finding> findings;
};

/// Adds the records of a log file. Invalid or truncated lines are skipped, and mark the process as
/// incomplete.
void read_log(const std::string &text, long pid, run_result &run);
/// Reads all files PID.json of a folder.
void read_logs(const std::string &folder, run_result &run);

/// Groups findings by code location, the most frequent first.
std::vector<code_location> group_findings(const std::vector<run_result> &runs);

} // namespace tools::emulate

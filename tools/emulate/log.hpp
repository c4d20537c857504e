// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Parses the logs that emulated processes write (COHERDMA_EMULATE_LOG), one file per process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace tools::emulate {

/// A process that used an emulated device.
struct process {
    long pid = 0;
    /// It wrote its summary at exit, and no invalid lines: no finding is missing.
    bool complete = false;
    std::size_t findings = 0, possible = 0, suppressed = 0, repeated = 0; ///< in the summary
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
    /// Of these, those that are not certain.
    [[nodiscard]] std::size_t num_possible() const noexcept;
    [[nodiscard]] std::size_t num_suppressed() const noexcept;
    [[nodiscard]] std::size_t num_repeated() const noexcept;
};

struct logged_finding {
    std::string mode;
    const nlohmann::ordered_json *json; ///< in its run_result
};

/// Findings with the same kind, missing sync, place where to insert it, and request; if that place
/// is not known, the same registration of memory. Probably fixed by the same change, whatever the
/// memory region.
struct code_location {
    std::string kind, device, missing;
    /// "mailbox.c:160: insert coherdma_sync_after_write(device, &range, 1); between ..."; "": no
    /// call is missing.
    std::string insert;
    std::string place;                    ///< where to insert it: "mailbox.c:160"; "": not known
    nlohmann::ordered_json after, before; ///< the two calls, or null; coherdma-emulate(7)
    std::string suppression;
    std::set<std::uint64_t> regions;             ///< their numbers in a process
    std::uint64_t region = 0, region_length = 0; ///< of the first finding
    std::string region_name;                     ///< "" if not known
    std::int64_t begin = 0, end = 0;             ///< offsets in a region of all lines
    std::string request, sync;                   ///< "" if not known
    /// Each with the call and its callers.
    std::vector<std::string> request_stack, sync_stack, registration_stack;
    std::size_t num_findings = 0, num_possible = 0;
    std::set<std::string> doubts; ///< of those that are possible: "same-bytes"
    std::map<std::string, std::size_t> num_findings_by_mode;
    std::vector<logged_finding> findings;
};

/// Adds the records of a log file. Invalid or truncated lines are skipped, and mark the process as
/// incomplete.
void read_log(const std::string &text, long pid, run_result &run);
/// Reads all files PID.json of a folder.
void read_logs(const std::string &folder, run_result &result);

/// Why the findings of a location that are possible are not certain: "the bytes were the same this
/// time"; and how many they are, unless all are.
std::string describe_doubts(const code_location &);

/// Groups findings by code location: those with certain findings first, then the most frequent.
std::vector<code_location> group_findings(const std::vector<run_result> &runs);

/// All frames of their stacks.
std::vector<std::string> frames_of(const std::vector<code_location> &);

} // namespace tools::emulate

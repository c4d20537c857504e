// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Parses the logs that checked processes write (COHERDMA_CHECK_LOG), one file per process.
#pragma once

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace tools::check {

/// A process that was checked.
struct process {
    long pid = 0;
    bool has_device = true; ///< it opened one, unless its summary says that it did not
    /// It wrote its summary at exit, and no invalid lines: no finding is missing.
    bool complete = false;
    std::size_t errors = 0, warnings = 0, suppressed = 0, repeated = 0; ///< in the summary
};

struct logged_finding {
    nlohmann::ordered_json json;
    /// How many findings it stands for: those at its place that were only counted are added to the
    /// first one.
    std::size_t count = 1;
};

struct run_result {
    int status = 0; ///< the command's exit status
    std::vector<process> processes;
    std::vector<logged_finding> findings;       ///< not suppressed
    std::map<std::string, std::size_t> by_kind; ///< in the summaries

    /// A process opened a device.
    [[nodiscard]] bool was_checked() const noexcept;
    /// Each process logged its summary, so no findings are missing.
    [[nodiscard]] bool has_all_summaries() const noexcept;
    /// The number of findings, including those that were not logged.
    [[nodiscard]] std::size_t num_errors() const noexcept;
    [[nodiscard]] std::size_t num_warnings() const noexcept;
    [[nodiscard]] std::size_t num_suppressed() const noexcept;
    [[nodiscard]] std::size_t num_repeated() const noexcept;
};

/// Findings of the same kind by the same call: probably fixed by the same change.
struct finding_place {
    std::string kind;
    bool is_error = false;
    /// "main (/src/x.c:120)"; without debug information "main (/usr/bin/x+0x12)"; "": not known
    std::string frame;
    std::string title, suppression; ///< of the first finding
    std::set<std::string> devices;
    std::size_t num_findings = 0;                         ///< with those that were only counted
    std::vector<const nlohmann::ordered_json *> findings; ///< in the run_result
};

/// Adds the records of a log file. Invalid or truncated lines are skipped, and mark the process as
/// incomplete.
void read_log(const std::string &text, long pid, run_result &result);
/// Reads all files PID.json of a folder.
void read_logs(const std::string &folder, run_result &result);

/// Groups findings by place: errors first, then the most frequent.
std::vector<finding_place> group_findings(const run_result &result);

/// The frame that is the place of a finding, or of one of its events: as finding_place::frame.
std::string frame_of(const nlohmann::ordered_json &place);
/// "x.c:120 in main"; without debug information "main (x+0x12)"; "?" if it is not known.
std::string describe_place(const finding_place &place);
/// The calls of the findings' events, each with up to two callers.
std::vector<std::string> frames_of(const run_result &result);

} // namespace tools::check

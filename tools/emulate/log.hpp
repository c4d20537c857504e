// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the processes of a run have written of themselves: COHERDMA_EMULATE_LOG, a file for each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tools::emulate {

/// A process in which a device was played.
struct process {
    long pid = 0;
    bool complete = false; ///< it came to its end, and told all
    std::size_t findings = 0, suppressed = 0, repeated = 0;
};

/// The command, run once in a mode.
struct run_result {
    std::string mode;
    int status = 0; ///< of the command
    std::vector<process> processes;
    std::vector<nlohmann::ordered_json> findings; ///< that are not suppressed, as they were told

    [[nodiscard]] bool played() const noexcept { return !processes.empty(); }
    [[nodiscard]] bool complete() const noexcept;
    /// With those that were only counted.
    [[nodiscard]] std::size_t count() const noexcept;
    [[nodiscard]] std::size_t suppressed() const noexcept;
    [[nodiscard]] std::size_t repeated() const noexcept;
};

/// Findings that one change of the program mends, most likely: of a kind, of memory registered by
/// the same call, around the same request.
struct place {
    std::string kind, device, missing;
    std::uint64_t region = 0, region_length = 0;
    std::int64_t begin = 0, end = 0; ///< of all its lines, from the region's begin
    std::string request, sync;       ///< "" if not known
    std::vector<std::string> request_at, sync_at, registered_at; ///< the call, and its callers
    std::size_t times = 0;
    std::map<std::string, std::size_t> by; ///< times of each mode
};

/// Adds what a file holds. A line that was cut short is left out, and its process not complete.
void read_log(const std::string &text, long pid, run_result &into);
/// All files PID.json of a folder.
void read_logs(const std::string &folder, run_result &into);

/// Those that came most often first.
std::vector<place> places_of(const std::vector<run_result> &all);

} // namespace tools::emulate

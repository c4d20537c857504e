// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The results and where they were measured; the table, the JSON and the HTML page use nothing else.
//
// A range is the memory of one coherdma_range that a sync call gets. The raw loop is nothing but
// the cache instruction for each line of the range, which no sync call can beat.
#pragma once

#include "statistics.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tools::bench {

/// The measured calls of libcoherdma; in parentheses the direction.
inline constexpr char SYNC_BEFORE_READ[] = "coherdma_sync_before_read";
inline constexpr char SYNC_AFTER_WRITE[] = "coherdma_sync_after_write";
inline constexpr char SYNC_TO_DEVICE[] = "coherdma_sync_for_device(TO_DEVICE)";
inline constexpr char SYNC_FROM_DEVICE[] = "coherdma_sync_for_device(FROM_DEVICE)";
inline constexpr char SYNC_FOR_CPU[] = "coherdma_sync_for_cpu(FROM_DEVICE)";

/// What the cache lines of a range are before a call: modified in the cache, cached as they are in
/// memory, or in no cache.
inline constexpr const char *LINE_STATES[] = {"dirty", "clean", "uncached"};

struct machine_info {
    std::string cpu_model, architecture, kernel, governor;
    std::string library_version; ///< of libcoherdma
    std::string time_source;
    unsigned cpus_online = 0;
    std::uint32_t line_size = 0; ///< of the cache, in bytes
    double clock_read_ns = 0;    ///< the cost of reading the clock, which is part of all times
};

struct measurement_options {
    std::vector<std::size_t> sizes; ///< of the range of a call, in bytes
    bool quick = false;
};

/// The time of a call with one range, for one set of cache instructions, state of the lines and
/// size of the range.
struct sync_timing {
    std::string instructions; ///< as in coherdma_cpu_attr.choices: "clwb", "dc" ...
    std::string call;         ///< SYNC_...
    std::string line_state;   ///< one of LINE_STATES
    std::size_t bytes = 0, num_lines = 0;
    summary ns_per_line;
    summary raw_loop_ns_per_line; ///< no samples if there is no raw loop for the instructions
    double ratio_to_raw_loop = 0; ///< time of the call by that of the raw loop, median of pairs

    [[nodiscard]] double gigabytes_per_second() const {
        const double ns = ns_per_line.p50 * static_cast<double>(num_lines);
        return ns > 0 ? static_cast<double>(bytes) / ns : 0;
    }
};

/// Ranges of one dirty line each, scattered in memory: the time to sync all of them with one call,
/// and with a call for each.
struct scattered_timing {
    std::size_t num_ranges = 0;
    summary one_call_ns, call_per_range_ns;
    double speedup = 0; ///< call_per_range_ns by one_call_ns, median of pairs
};

struct measurements {
    std::string utc_time;
    machine_info machine;
    measurement_options options;
    std::string default_instructions; ///< those that sync uses on this CPU unless told otherwise
    std::vector<sync_timing> timings;
    std::vector<scattered_timing> scattered; ///< with the default instructions
    summary coherent_call_ns; ///< a call with one range on a device that needs no sync
    bool interrupted = false;
};

} // namespace tools::bench

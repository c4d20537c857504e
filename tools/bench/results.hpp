// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The results and where they were measured; the table, the JSON and the HTML page use nothing else.
#pragma once

#include "statistics.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tools::bench {

struct machine {
    std::string cpu, architecture, kernel, governor, library, time_source;
    unsigned cpus = 0;
    std::uint32_t line_bytes = 0;
    double clock_ns = 0; ///< the cost of reading the clock, which is part of all times
};

struct measurement_options {
    std::vector<std::size_t> sizes;
    bool quick = false;
};

/// The time of one call with one choice of instructions, state of the lines and size.
struct sync_timing {
    std::string instructions; ///< for the cache: "clwb", "dc" ...
    std::string call;         ///< "read" or "write": coherdma_sync_rdma_...
    std::string line_state;   ///< "dirty", "clean" or "uncached"
    std::size_t bytes = 0, lines = 0;
    summary ns_per_line;
    summary raw_ns_per_line; ///< of the bare loop; count is 0 if there is none
    double ratio = 0;        ///< call to raw loop, median of pairs

    [[nodiscard]] double gigabytes_per_second() const {
        const double ns = ns_per_line.p50 * static_cast<double>(lines);
        return ns > 0 ? static_cast<double>(bytes) / ns : 0;
    }
};

/// Scattered dirty lines, synced with one call or with one call each.
struct batch {
    std::size_t segments = 0;
    summary one_call_ns, calls_each_ns; ///< for all segments
    double ratio = 0;                   ///< calls_each to one_call, median of pairs
};

struct measurements {
    std::string time; ///< UTC
    machine host;
    measurement_options options;
    std::string batch_instructions; ///< cache instructions used for the batches
    std::vector<sync_timing> timings;
    std::vector<batch> batches;
    summary coherent_call_ns; ///< a call with one range on a device that needs no sync
    bool interrupted = false;
};

} // namespace tools::bench

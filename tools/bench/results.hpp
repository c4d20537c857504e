// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What was measured, and where; the table, the JSON and the page are made of nothing else.
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
    double clock_ns = 0; ///< what reading the time costs; it is in every figure
};

struct options {
    std::vector<std::size_t> sizes;
    bool quick = false;
};

/// One way to do it, of memory in one state, in one size.
struct cell {
    std::string instructions;
    std::string call;  ///< "read" or "write", of coherdma_sync_rdma_...
    std::string state; ///< "dirty", "clean" or "uncached", of the lines
    std::size_t bytes = 0, lines = 0;
    summary call_ns;  ///< for one line
    summary raw_ns;   ///< the same of the raw loop; count 0: there is none
    double ratio = 0; ///< call to raw, the median of pairs

    [[nodiscard]] double gigabytes_per_second() const {
        const double ns = call_ns.p50 * static_cast<double>(lines);
        return ns > 0 ? static_cast<double>(bytes) / ns : 0;
    }
};

/// Scattered dirty lines, all in one call, and one call each.
struct batch {
    std::size_t segments = 0;
    summary one_call_ns, calls_each_ns; ///< for all segments
    double ratio = 0;                   ///< each to one, the median of pairs
};

struct results {
    std::string when; ///< UTC
    machine where;
    options how;
    std::string instructions; ///< of the batches
    std::vector<cell> cells;
    std::vector<batch> batches;
    summary coherent_ns; ///< a call with one range, of a device that needs no sync
    bool interrupted = false;
};

} // namespace tools::bench

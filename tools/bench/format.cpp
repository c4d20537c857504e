// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "format.hpp"

#include <algorithm>
#include <fmt/core.h>

namespace tools::bench {

std::string format_number(double value) {
    if (!(value > 0))
        return "-";
    // Three significant digits, without an exponent.
    const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    return fmt::format("{:.{}f}", value, decimals);
}

std::string format_occasion(const std::string &call) {
    return call == SYNC_BEFORE_READ   ? "before a Read"
           : call == SYNC_AFTER_WRITE ? "around a Write"
           : call == SYNC_TO_DEVICE   ? "for the device, which reads"
           : call == SYNC_FROM_DEVICE ? "for the device, which writes"
                                      : "for the CPU";
}

std::string format_call(const std::string &call) {
    return call == SYNC_BEFORE_READ   ? "read"
           : call == SYNC_AFTER_WRITE ? "write"
           : call == SYNC_TO_DEVICE   ? "to dev"
           : call == SYNC_FROM_DEVICE ? "from dev"
                                      : "cpu";
}

const sync_timing *find_timing(const measurements &results, const std::string &instructions,
                               const std::string &call, const std::string &line_state,
                               std::size_t bytes) {
    for (const sync_timing &timing : results.timings)
        if (timing.instructions == instructions && timing.call == call &&
            timing.line_state == line_state && timing.bytes == bytes)
            return &timing;
    return nullptr;
}

std::vector<measured_call> list_measured_calls(const measurements &results) {
    std::vector<measured_call> calls;
    for (const sync_timing &timing : results.timings) {
        const measured_call call = {timing.instructions, timing.call};
        if (std::find(calls.begin(), calls.end(), call) == calls.end())
            calls.push_back(call);
    }
    return calls;
}

} // namespace tools::bench

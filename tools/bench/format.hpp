// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Shared by the table, the HTML page and the comparison.
#pragma once

#include "results.hpp"

#include <string>
#include <vector>

namespace tools::bench {

/// Three significant digits: 0.62, 24.7, 190, 39830; "-" if not positive.
std::string format_number(double value);

/// "before a Read", "around a Write"
std::string format_call(const std::string &call);

const sync_timing *find(const measurements &results, const std::string &instructions,
                        const std::string &call, const std::string &state, std::size_t bytes);

struct measured_call {
    std::string instructions, call;
    bool operator==(const measured_call &) const = default;
};

/// Each measured call with each of its instructions, in order.
std::vector<measured_call> measured_calls(const measurements &results);

} // namespace tools::bench

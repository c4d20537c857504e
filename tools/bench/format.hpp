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

/// When programs make the call: "before a Read", "around a Write", "for the CPU" ...
std::string format_occasion(const std::string &call);
/// The same in at most eight characters.
std::string format_call(const std::string &call);

/// nullptr if it was not measured.
const sync_timing *find_timing(const measurements &results, const std::string &instructions,
                               const std::string &call, const std::string &line_state,
                               std::size_t bytes);

/// A sync call with a set of cache instructions.
struct measured_call {
    std::string instructions, call;
    bool operator==(const measured_call &) const = default;
};

/// The combinations of instructions and call in the results, each once, in the order measured.
std::vector<measured_call> list_measured_calls(const measurements &results);

} // namespace tools::bench

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "results.hpp"

#include <functional>

namespace tools::bench {

/// Returns true to stop; called between repetitions.
using stop_predicate = std::function<bool()>;
/// Called before each step with the number of finished steps, the total, and the step's name.
using progress = std::function<void(std::size_t, std::size_t, const std::string &)>;

/// Measures and fills in `out`. If stopped early, the results so far are complete. Throws
/// std::runtime_error if the library fails.
void measure(measurements &out, const std::vector<std::string> &choices,
             const stop_predicate &should_stop, const progress &report_progress);

/// The cost of reading the clock, in ns.
double clock_cost_ns();

} // namespace tools::bench

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "results.hpp"

#include <functional>

namespace tools::bench {

/// Returns true to stop; called between repetitions.
using stop_predicate = std::function<bool()>;
/// Called before each step with the number of finished steps, the total, and the step's name.
using progress_function = std::function<void(std::size_t, std::size_t, const std::string &)>;

/// Measures every call with every one of these sets of instructions, and fills in the results; the
/// caller has set results.machine, options and default_instructions. If stopped early, what it has
/// filled in is complete. Throws std::runtime_error if the library fails.
void measure(measurements &results, const std::vector<std::string> &instruction_sets,
             const stop_predicate &should_stop, const progress_function &report_progress);

/// The cost of reading the clock once.
double measure_clock_read_ns();

} // namespace tools::bench

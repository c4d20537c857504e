// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "results.hpp"

#include <functional>

namespace tools::bench {

/// Asked between repetitions.
using stop_wish = std::function<bool()>;
/// Told before each step: how many are done, of how many, and what comes.
using progress = std::function<void(std::size_t, std::size_t, const std::string &)>;

/// Fills in what it measures as it goes; what is there when someone wished to stop is complete in
/// itself. Throws std::runtime_error if the library refuses.
void measure(results &all, const std::vector<std::string> &choices, const stop_wish &stop,
             const progress &tell);

/// What it costs to read the time, in ns.
double clock_cost_ns();

} // namespace tools::bench

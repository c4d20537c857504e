// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <cstddef>
#include <vector>

namespace tools::bench {

/// Of many repetitions. On a machine that others use the mean says little and the largest nothing.
struct summary {
    std::size_t count = 0;
    double p50 = 0, p90 = 0, p99 = 0;
};

/// The value that part (0 ... 1) of the sorted ones do not exceed, between two neighbours in
/// proportion; 0 of none.
double percentile(const std::vector<double> &sorted, double part);

summary summarize(std::vector<double> values);

/// The median of values[i] / others[i]: what was measured together is compared together, so that a
/// machine that is slow for a while is slow for both. 0 of none; pairs without a divisor are left
/// out.
double median_ratio(const std::vector<double> &values, const std::vector<double> &others);

} // namespace tools::bench

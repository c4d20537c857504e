// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <cstddef>
#include <vector>

namespace tools::bench {

/// Percentiles of many repetitions: on a shared machine the mean and the maximum say little.
struct summary {
    std::size_t count = 0;
    double p50 = 0, p90 = 0, p99 = 0;
};

/// The `fraction` (0 to 1) quantile of the sorted values, interpolated; 0 for no values.
double percentile(const std::vector<double> &sorted, double fraction);

summary summarize(std::vector<double> values);

/// The median of values[i] / others[i], so that values that were measured together are compared.
/// Pairs with a zero divisor are skipped; 0 for no pairs.
double median_ratio(const std::vector<double> &values, const std::vector<double> &others);

} // namespace tools::bench

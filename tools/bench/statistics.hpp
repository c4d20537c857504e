// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <cstddef>
#include <vector>

namespace tools::bench {

/// Percentiles of the samples, the times of the repetitions: on a shared machine the mean and the
/// maximum say little. Without samples all are 0.
struct summary {
    std::size_t num_samples = 0;
    double p50 = 0, p90 = 0, p99 = 0;
};

/// The `fraction` (0 to 1) quantile of the sorted samples, interpolated; 0 for no samples.
double percentile(const std::vector<double> &sorted_samples, double fraction);

summary summarize(std::vector<double> samples);

/// The median of numerators[i] / denominators[i], so that samples that were taken together are
/// compared. Pairs with a zero denominator are skipped; 0 for no pairs.
double median_ratio(const std::vector<double> &numerators, const std::vector<double> &denominators);

} // namespace tools::bench

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "statistics.hpp"

#include <algorithm>
#include <cmath>

namespace tools::bench {

double percentile(const std::vector<double> &sorted, double fraction) {
    if (sorted.empty())
        return 0;
    const double position = std::clamp(fraction, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
    const auto below = static_cast<std::size_t>(std::floor(position));
    const std::size_t above = std::min(below + 1, sorted.size() - 1);
    return std::lerp(sorted[below], sorted[above], position - std::floor(position));
}

summary summarize(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return {values.size(), percentile(values, 0.5), percentile(values, 0.9),
            percentile(values, 0.99)};
}

double median_ratio(const std::vector<double> &values, const std::vector<double> &others) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < std::min(values.size(), others.size()); ++i)
        if (others[i] > 0)
            ratios.push_back(values[i] / others[i]);
    return summarize(std::move(ratios)).p50;
}

} // namespace tools::bench

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "statistics.hpp"

#include <algorithm>
#include <cmath>

namespace tools::bench {

double percentile(const std::vector<double> &sorted_samples, double fraction) {
    if (sorted_samples.empty())
        return 0;
    const std::size_t last = sorted_samples.size() - 1;
    const double position = std::clamp(fraction, 0.0, 1.0) * static_cast<double>(last);
    const auto below = static_cast<std::size_t>(std::floor(position));
    const std::size_t above = std::min(below + 1, last);
    return std::lerp(sorted_samples[below], sorted_samples[above], position - std::floor(position));
}

summary summarize(std::vector<double> samples) {
    std::sort(samples.begin(), samples.end());
    return {samples.size(), percentile(samples, 0.5), percentile(samples, 0.9),
            percentile(samples, 0.99)};
}

double median_ratio(const std::vector<double> &numerators,
                    const std::vector<double> &denominators) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < std::min(numerators.size(), denominators.size()); ++i)
        if (denominators[i] > 0)
            ratios.push_back(numerators[i] / denominators[i]);
    return summarize(std::move(ratios)).p50;
}

} // namespace tools::bench

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datping/report/latency.hpp"
#include "bench/statistics.hpp"

#include <algorithm>

namespace tools::datping {

void latency::add(double microseconds) {
    min_ = count_ == 0 ? microseconds : std::min(min_, microseconds);
    max_ = std::max(max_, microseconds);
    ++count_;
    if (samples_.size() < MAX_SAMPLES) {
        samples_.push_back(microseconds);
        return;
    }
    // Reservoir sampling: every time so far is in samples_ with the same probability.
    const auto i = std::uniform_int_distribution<std::uint64_t>(0, count_ - 1)(random_);
    if (i < MAX_SAMPLES)
        samples_[i] = microseconds;
}

latency::summary latency::summarize() const {
    std::vector<double> sorted = samples_;
    std::sort(sorted.begin(), sorted.end());
    return {min_, bench::percentile(sorted, 0.5), bench::percentile(sorted, 0.99), max_};
}

} // namespace tools::datping

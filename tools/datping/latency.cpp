// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datping/latency.hpp"
#include "bench/statistics.hpp"

#include <algorithm>

namespace tools::datping {

void latency::add(double microseconds) {
    least = counted == 0 ? microseconds : std::min(least, microseconds);
    largest = std::max(largest, microseconds);
    ++counted;
    if (kept.size() < KEPT) {
        kept.push_back(microseconds);
        return;
    }
    const auto place = std::uniform_int_distribution<std::uint64_t>(0, counted - 1)(chance);
    if (place < KEPT)
        kept[place] = microseconds;
}

latency::summary latency::summarize() const {
    std::vector<double> sorted = kept;
    std::sort(sorted.begin(), sorted.end());
    return {least, bench::percentile(sorted, 0.5), bench::percentile(sorted, 0.99), largest};
}

} // namespace tools::datping

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace tools::datping {

/// Round times in microseconds. Median and 99th percentile come from at most MAX_SAMPLES times, a
/// uniform random sample of all; minimum and maximum are those of all.
class latency {
  public:
    static constexpr std::size_t MAX_SAMPLES = std::size_t{1} << 20;

    struct summary {
        double min = 0, median = 0, p99 = 0, max = 0;
    };

    void add(double microseconds);
    std::uint64_t count() const { return count_; }
    summary summarize() const;

  private:
    std::vector<double> samples_;
    std::uint64_t count_ = 0;
    double min_ = 0, max_ = 0;
    std::minstd_rand random_;
};

} // namespace tools::datping

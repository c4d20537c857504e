// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace tools::datping {

/// Times of rounds in microseconds. Of more than are KEPT it keeps as many, chosen with equal
/// chances, for the median and the 99th percentile; the least and the largest are of all.
class latency {
  public:
    static constexpr std::size_t KEPT = std::size_t{1} << 20;

    struct summary {
        double least = 0, median = 0, p99 = 0, largest = 0;
    };

    void add(double microseconds);
    std::uint64_t count() const { return counted; }
    summary summarize() const;

  private:
    std::vector<double> kept;
    std::uint64_t counted = 0;
    double least = 0, largest = 0;
    std::minstd_rand chance;
};

} // namespace tools::datping

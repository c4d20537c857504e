// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "bench/statistics.hpp"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace sync_bench {

/// What a figure must be.
struct limits {
    double min = 0, max = 0; ///< 0: no matter
};

/// One figure and what was promised of it.
struct promise {
    std::string name;
    limits bounds;
    std::vector<double> passes{};

    [[nodiscard]] double median() const { return tools::bench::summarize(passes).p50; }
    [[nodiscard]] bool is_met() const {
        return median() >= bounds.min && (bounds.max == 0 || median() <= bounds.max);
    }
};

class promises {
  public:
    void add(const std::string &name, limits bounds, double value) {
        const auto has_name = [&](const promise &each) {
            return each.name == name;
        };
        auto it = std::find_if(promises_.begin(), promises_.end(), has_name);
        if (it == promises_.end())
            it = promises_.insert(promises_.end(), promise{name, bounds});
        it->passes.push_back(value);
    }

    /// How many did not hold.
    [[nodiscard]] int print() const {
        int num_missed = 0;
        std::printf("%-52s %8s %15s  %s\n", "", "median", "of passes", "promised");
        for (const promise &each : promises_) {
            const auto [low, high] = std::minmax_element(each.passes.begin(), each.passes.end());
            std::printf("%-52s %8.3f %7.3f-%7.3f", each.name.c_str(), each.median(), *low, *high);
            if (each.bounds.min > 0)
                std::printf("  >= %.2f", each.bounds.min);
            if (each.bounds.max > 0)
                std::printf("  <= %.2f", each.bounds.max);
            std::printf("%s\n", each.is_met() ? "" : " MISSED");
            num_missed += each.is_met() ? 0 : 1;
        }
        return num_missed;
    }

  private:
    std::vector<promise> promises_;
};

} // namespace sync_bench

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "bench/statistics.hpp"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace sync_bench {

/// What a figure must be.
struct bar {
    double least = 0, most = 0; ///< 0: no matter
};

/// One figure and what was promised of it.
struct promise {
    std::string what;
    bar promised;
    std::vector<double> passes{};

    [[nodiscard]] double median() const { return tools::bench::summarize(passes).p50; }
    [[nodiscard]] bool held() const {
        return median() >= promised.least && (promised.most == 0 || median() <= promised.most);
    }
};

class promises {
  public:
    void add(const std::string &what, bar promised, double got) {
        const auto same = [&](const promise &each) {
            return each.what == what;
        };
        auto found = std::find_if(all_.begin(), all_.end(), same);
        if (found == all_.end())
            found = all_.insert(all_.end(), promise{what, promised});
        found->passes.push_back(got);
    }

    /// How many did not hold.
    [[nodiscard]] int print() const {
        int missed = 0;
        std::printf("%-52s %8s %15s  %s\n", "", "median", "of passes", "promised");
        for (const promise &each : all_) {
            const auto [low, high] = std::minmax_element(each.passes.begin(), each.passes.end());
            std::printf("%-52s %8.3f %7.3f-%7.3f", each.what.c_str(), each.median(), *low, *high);
            if (each.promised.least > 0)
                std::printf("  >= %.2f", each.promised.least);
            if (each.promised.most > 0)
                std::printf("  <= %.2f", each.promised.most);
            std::printf("%s\n", each.held() ? "" : " MISSED");
            missed += each.held() ? 0 : 1;
        }
        return missed;
    }

  private:
    std::vector<promise> all_;
};

} // namespace sync_bench

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "measure.hpp"
#include "raw.hpp"

#include <ctime>
#include <random>

namespace tools::bench {

inline double now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

/// The time of work() until all its instructions are complete.
template <typename Work>
double timed_ns(Work work) {
    wait_complete();
    const double begin = now_ns();
    work();
    wait_complete();
    return now_ns() - begin;
}

/// The number of repetitions and the time for one measurement.
struct sample_budget {
    std::size_t warmup, min_rounds, max_rounds;
    double max_ns;
};

struct sample_pairs {
    std::vector<double> first, second;

    void append(const sample_pairs &other) {
        first.insert(first.end(), other.first.begin(), other.first.end());
        second.insert(second.end(), other.second.begin(), other.second.end());
    }
};

/// Measures two functions alternately and in random order, so that changes of the machine, cache
/// effects of the first on the second, and periodic load affect both alike. Each function returns a
/// time in ns, which is divided by num_parts.
template <typename First, typename Second>
sample_pairs measure_paired(const sample_budget &budget, const stop_predicate &should_stop,
                            std::size_t num_parts, First measure_first, Second measure_second) {
    static std::minstd_rand coin(1);
    sample_pairs samples;
    const double begin = now_ns();
    for (std::size_t round = 0; round < budget.warmup + budget.max_rounds && !should_stop();
         ++round) {
        if (round >= budget.warmup + budget.min_rounds && now_ns() - begin > budget.max_ns)
            break;
        double first = 0, second = 0;
        if (coin() / 2 % 2 == 0) {
            first = measure_first();
            second = measure_second();
        } else {
            second = measure_second();
            first = measure_first();
        }
        if (round < budget.warmup)
            continue;
        samples.first.push_back(first / static_cast<double>(num_parts));
        samples.second.push_back(second / static_cast<double>(num_parts));
    }
    return samples;
}

} // namespace tools::bench

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "measure.hpp"
#include "raw_loop.hpp"

#include <ctime>
#include <random>

namespace tools::bench {

/// The monotonic clock.
inline double now_ns() {
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

/// The time from the call of work() until all instructions that it issued are complete.
template <typename Work>
double ns_until_complete(Work work) {
    wait_for_cache_instructions();
    const double begin = now_ns();
    work();
    wait_for_cache_instructions();
    return now_ns() - begin;
}

/// How often to repeat a measurement: `warmup` rounds without result, then at least min_rounds, at
/// most max_rounds, and no further one after max_ns.
struct round_limits {
    std::size_t warmup, min_rounds, max_rounds;
    double max_ns;
};

/// first[i] and second[i] were measured in the same round.
struct sample_pairs {
    std::vector<double> first, second;

    void append(const sample_pairs &other) {
        first.insert(first.end(), other.first.begin(), other.first.end());
        second.insert(second.end(), other.second.begin(), other.second.end());
    }
};

/// Measures two functions alternately and in random order, so that changes of the machine, cache
/// effects of the first on the second, and periodic load affect both alike. Each function returns a
/// time in ns; a sample is that time divided by `divisor`, such as the number of lines or calls.
template <typename First, typename Second>
sample_pairs measure_paired(const round_limits &limits, const stop_predicate &should_stop,
                            std::size_t divisor, First measure_first, Second measure_second) {
    static std::minstd_rand random(1);
    sample_pairs samples;
    const double begin = now_ns();
    for (std::size_t round = 0; round < limits.warmup + limits.max_rounds && !should_stop();
         ++round) {
        if (round >= limits.warmup + limits.min_rounds && now_ns() - begin > limits.max_ns)
            break;
        const bool is_first_first = random() / 2 % 2 == 0; // a random bit
        double first = 0, second = 0;
        if (is_first_first) {
            first = measure_first();
            second = measure_second();
        } else {
            second = measure_second();
            first = measure_first();
        }
        if (round < limits.warmup)
            continue;
        samples.first.push_back(first / static_cast<double>(divisor));
        samples.second.push_back(second / static_cast<double>(divisor));
    }
    return samples;
}

} // namespace tools::bench

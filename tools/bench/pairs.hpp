// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "measure.hpp"
#include "raw.hpp"

#include <ctime>
#include <random>

namespace tools::bench {

inline double now_ns() {
    timespec read{};
    clock_gettime(CLOCK_MONOTONIC, &read);
    return static_cast<double>(read.tv_sec) * 1e9 + static_cast<double>(read.tv_nsec);
}

/// To the end of what was issued.
template <typename Work>
double timed_ns(Work work) {
    complete();
    const double begin = now_ns();
    work();
    complete();
    return now_ns() - begin;
}

/// How often, and for how long, one figure is measured.
struct patience {
    std::size_t warm, least, most;
    double ns;
};

struct pairs {
    std::vector<double> mine, other;

    void append(const pairs &more) {
        mine.insert(mine.end(), more.mine.begin(), more.mine.end());
        other.insert(other.end(), more.other.begin(), more.other.end());
    }
};

/// One after the other, for a machine changes with time; and in random order, for the second may
/// find things better, or worse, and others may have the CPU at regular times. Each is a function
/// that gives ns, of so many pieces.
template <typename Mine, typename Other>
pairs measure_pairs(const patience &how, const stop_wish &stop, std::size_t pieces, Mine mine,
                    Other other) {
    static std::minstd_rand coin(1);
    pairs all;
    const double begin = now_ns();
    for (std::size_t round = 0; round < how.warm + how.most && !stop(); ++round) {
        if (round >= how.warm + how.least && now_ns() - begin > how.ns)
            break;
        double first = 0, second = 0;
        if (coin() / 2 % 2 == 0) {
            first = mine();
            second = other();
        } else {
            second = other();
            first = mine();
        }
        if (round < how.warm)
            continue;
        all.mine.push_back(first / static_cast<double>(pieces));
        all.other.push_back(second / static_cast<double>(pieces));
    }
    return all;
}

} // namespace tools::bench

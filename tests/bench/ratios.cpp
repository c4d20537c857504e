// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// ratios [PASSES]: what was promised of the sync calls' speed, and whether it holds on this
// machine. Everything is measured by turns in random order, and what is compared are the two times
// of one round. A figure is the median of its passes (5), each a median of many rounds.
// Exit status: 0 all held, 1 not all, 2 misuse, 77 this CPU cannot sync.

#include "bench/pairs.hpp"
#include "contestants.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>

namespace {

using namespace sync_bench;
using tools::bench::median_ratio;
using tools::bench::now_ns;
using tools::bench::summarize;
using tools::bench::timed_ns;

constexpr std::size_t KIB = 1024, MIB = KIB * KIB, LARGEST = 64 * MIB;

/// One promise: other / ours must be at least so much, or ours / other at most.
struct promise {
    std::string what;
    bool at_least;
    double bar; ///< 0: only told
    std::vector<double> passes{};

    [[nodiscard]] bool held() const {
        const double got = summarize(passes).p50;
        return bar == 0 || (at_least ? got >= bar : got <= bar);
    }
};

/// Times of all contestants, round by round, in random order.
std::vector<std::vector<double>> rounds(const job &work, const std::string &state,
                                        const std::vector<contestant> &all, double ns) {
    static std::minstd_rand random(2);
    std::vector<std::vector<double>> times(all.size());
    std::vector<std::size_t> order(all.size());
    for (std::size_t each = 0; each < all.size(); ++each)
        order[each] = each;
    const double begin = now_ns();
    for (std::size_t round = 0; round < 5000 && (round < 8 || now_ns() - begin < ns); ++round) {
        std::shuffle(order.begin(), order.end(), random);
        for (const std::size_t each : order) {
            work.make(state);
            const double took = timed_ns(all[each].run);
            if (round > 0)
                times[each].push_back(took);
        }
    }
    return times;
}

class table {
  public:
    void add(const std::string &what, bool at_least, double bar, double got) {
        const auto same = [&](const promise &each) {
            return each.what == what;
        };
        auto found = std::find_if(all_.begin(), all_.end(), same);
        if (found == all_.end())
            found = all_.insert(all_.end(), promise{what, at_least, bar});
        found->passes.push_back(got);
    }

    /// Whether all held.
    [[nodiscard]] bool print() const {
        bool good = true;
        std::printf("%-48s %8s %15s %8s\n", "", "median", "of passes", "promised");
        for (const promise &each : all_) {
            const auto [low, high] = std::minmax_element(each.passes.begin(), each.passes.end());
            std::printf("%-48s %8.3f %7.3f-%7.3f", each.what.c_str(), summarize(each.passes).p50,
                        *low, *high);
            if (each.bar > 0)
                std::printf(" %s%6.2f%s", each.at_least ? ">=" : "<=", each.bar,
                            each.held() ? "" : " MISSED");
            std::printf("\n");
            good = good && each.held();
        }
        return good;
    }

  private:
    std::vector<promise> all_;
};

struct bench {
    device on = assume(COHERDMA_NON_COHERENT);
    memory bytes{LARGEST}, others{2 * MIB};
    std::size_t line = 64;
    std::string best; ///< the instructions that ours uses
    table results;

    void sizes(const char *call, std::vector<contestant> (*make)(const job &)) {
        for (const char *state : {"dirty", "uncached"})
            for (const std::size_t size :
                 {std::size_t{64}, 4 * KIB, 64 * KIB, MIB, 16 * MIB, LARGEST}) {
                const job work = contiguous(on.get(), bytes, line, size);
                const auto all = make(work);
                const auto times = rounds(work, state, all, size < 16 * MIB ? 1e8 : 4e8);
                for (std::size_t other = 1; other < all.size(); ++other) {
                    const bool pmem = all[other].name.starts_with("pmem");
                    const bool same = all[other].name == best || *call == 'w';
                    const double bar = pmem ? 1.02 : same && size >= 64 * KIB ? 1.03 : 0;
                    results.add(std::string(call) + ", " + state + ", " + std::to_string(size) +
                                    " B / " + all[other].name,
                                false, bar, median_ratio(times[0], times[other]));
                }
            }
    }

    void batches() {
        for (const std::size_t count : {1U, 4U, 16U, 256U}) {
            const job work = scattered(on.get(), bytes, line, count);
            const auto all = batchers(work);
            const auto times = rounds(work, "dirty", all, 2e8);
            for (std::size_t other = 1; other < all.size(); ++other) {
                const double bar = count < 256                             ? 0
                                   : all[other].name == "pmem_persist"     ? 40
                                   : all[other].name == "pmem_flush+drain" ? 1.3
                                                                           : 0;
                results.add(std::to_string(count) + " ranges: " + all[other].name + " / one call",
                            true, bar, median_ratio(times[other], times[0]));
            }
        }
    }

    void coherent() {
        constexpr std::size_t CALLS = 10000;
        const device free = assume(COHERDMA_COHERENT);
        const ibv_sge one{bytes.begin(), 64, 0};
        std::vector<double> took;
        for (int round = 0; round < 200; ++round)
            took.push_back(timed_ns([&] {
                               for (std::size_t call = 0; call < CALLS; ++call)
                                   coherdma_sync_rdma_read(free.get(), &one, 1);
                           }) /
                           CALLS);
        results.add("ns of a call on a coherent device", false, 25, summarize(took).p50);
    }
};

} // namespace

int main(int count, char **words) {
    const int passes = count > 1 ? std::atoi(words[1]) : 5;
    if (passes < 1) {
        std::fprintf(stderr, "usage: ratios [PASSES]\n");
        return 2;
    }
    bench all;
    if (!all.on) {
        std::fprintf(stderr, "ratios: %s\n", coherdma_error());
        return 77;
    }
    coherdma_cpu_attr cpu{};
    coherdma_query_cpu(&cpu, sizeof cpu);
    all.line = cpu.line_size;
    all.best = std::string("bare ") + cpu.instructions;
    for (int pass = 0; pass < passes; ++pass) {
        all.sizes("read", readers);
        all.sizes("write", writers);
        all.batches();
        all.coherent();
    }
    std::printf("instructions: %s\n", cpu.instructions);
    return all.results.print() ? 0 : 1;
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// ratios [PASSES]: what was promised of the sync calls' speed, and whether it holds on this
// machine. Everything is measured by turns in random order, and what is compared are the two times
// of one round. A figure is the median of its passes (5), each a median of many rounds.
// Exit status: 0 all held, 1 not all, 2 misuse, 77 this CPU cannot sync.

#include "bench/paired.hpp"
#include "bench/report.hpp"
#include "contestants.hpp"
#include "promises.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>

namespace {

using namespace sync_bench;
using tools::bench::median_ratio;
using tools::bench::now_ns;
using tools::bench::size_name;
using tools::bench::summarize;
using tools::bench::timed_ns;
using tools::bench::wait_complete;

constexpr std::size_t KIB = 1024, MIB = KIB * KIB, LARGEST = 64 * MIB;

using figures = std::vector<std::vector<double>>; ///< of each contestant, round by round

/// measure(which) of each, in random order, again and again.
template <typename Measure>
figures rounds(std::size_t contestants, double ns, Measure measure) {
    static std::minstd_rand random(2);
    figures times(contestants);
    std::vector<std::size_t> order(contestants);
    for (std::size_t each = 0; each < contestants; ++each)
        order[each] = each;
    const double begin = now_ns();
    for (std::size_t round = 0; round < 5000 && (round < 8 || now_ns() - begin < ns); ++round) {
        std::shuffle(order.begin(), order.end(), random);
        for (const std::size_t each : order) {
            const double took = measure(each);
            if (round > 0)
                times[each].push_back(took);
        }
    }
    return times;
}

figures alone(const job &work, const std::string &state, const std::vector<contestant> &all,
              double ns) {
    return rounds(all.size(), ns, [&](std::size_t each) {
        work.make(state);
        return timed_ns(all[each].run);
    });
}

/// Two threads that begin together; until the later one is done.
double together(const job &first, const contestant &first_way, const job &other,
                const contestant &other_way) {
    std::atomic<bool> ready{false}, go{false};
    double ended = 0;
    std::thread second([&] {
        other.make("dirty");
        wait_complete();
        ready = true;
        while (!go) {
        }
        other_way.run();
        wait_complete();
        ended = now_ns();
    });
    first.make("dirty");
    while (!ready) {
    }
    wait_complete();
    const double begin = now_ns();
    go = true;
    first_way.run();
    wait_complete();
    const double end = now_ns();
    second.join();
    return std::max(end, ended) - begin;
}

struct bench {
    device on = assume(COHERDMA_NON_COHERENT);
    memory bytes{LARGEST}, others{MIB};
    std::size_t line = 64;
    std::string best; ///< the bare loop of the instruction that ours uses before a Read
    promises results{};

    void sizes(const std::string &call, std::vector<contestant> (*make)(const job &)) {
        for (const char *state : {"dirty", "uncached"})
            for (const std::size_t size :
                 {std::size_t{64}, 4 * KIB, 64 * KIB, MIB, 16 * MIB, LARGEST}) {
                const job work = contiguous(on.get(), bytes, line, size);
                const auto all = make(work);
                const figures times = alone(work, state, all, size < 16 * MIB ? 1e8 : 4e8);
                for (std::size_t other = 1; other < all.size(); ++other) {
                    const bool pmem = all[other].name.starts_with("pmem");
                    const bool same = all[other].name == best || call == "write";
                    const double most = pmem ? 1.02 : same && size >= 64 * KIB ? 1.03 : 0;
                    results.add(call + ", " + state + ", " + size_name(size) + ": to " +
                                    all[other].name,
                                {0, most}, median_ratio(times[0], times[other]));
                }
            }
    }

    void batches() {
        for (const std::string state : {"dirty", "uncached"})
            for (const std::size_t count : {1U, 4U, 16U, 256U}) {
                const job work = scattered(on.get(), bytes, line, count);
                const auto all = batchers(work);
                const figures times = alone(work, state, all, 2e8);
                const std::string ranges = std::to_string(count) + " ranges, " + state + ": ";
                const bool promised = count == 256 && state == "dirty";
                for (std::size_t other = 1; other < all.size(); ++other) {
                    const std::string &name = all[other].name;
                    const double least = !promised                    ? 0
                                         : name == "pmem_persist"     ? 40
                                         : name == "pmem_flush+drain" ? 1.3
                                                                      : 0;
                    results.add(ranges + name + " to one call", {least, 0},
                                median_ratio(times[other], times[0]));
                    // What no call can do better than, whatever it is.
                    if (least > 0 && all[1].name.starts_with("bare"))
                        results.add(ranges + name + " to " + all[1].name, {},
                                    median_ratio(times[other], times[1]));
                }
            }
    }

    void two_threads() {
        const job first = contiguous(on.get(), bytes, line, MIB);
        const job other = contiguous(on.get(), others, line, MIB);
        const auto first_way = readers(first), other_way = readers(other);
        const figures times = rounds(3, 3e8, [&](std::size_t which) {
            if (which < 2)
                return together(first, first_way[which], other, other_way[which]);
            first.make("dirty");
            return 2 * timed_ns(first_way[0].run);
        });
        results.add("two threads, dirty, 1 MiB each: to " + first_way[1].name, {},
                    median_ratio(times[0], times[1]));
        results.add("two threads, dirty, 1 MiB each: as fast as one", {},
                    median_ratio(times[2], times[0]));
    }

    void coherent() {
        constexpr std::size_t CALLS = 10000;
        const device free = assume(COHERDMA_COHERENT);
        const ibv_sge sge{bytes.begin(), 64, 0};
        std::vector<double> took;
        for (int round = 0; round < 200; ++round)
            took.push_back(timed_ns([&] {
                               for (std::size_t call = 0; call < CALLS; ++call)
                                   coherdma_sync_rdma_read(free.get(), &sge, 1);
                           }) /
                           CALLS);
        results.add("ns of a call on a coherent device", {0, 25}, summarize(took).p50);
    }
};

} // namespace

int main(int count, char **words) {
    const int passes = count > 1 ? std::atoi(words[1]) : 5;
    if (passes < 1 || count > 2) {
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
        all.two_threads();
        all.coherent();
    }
    std::printf("instructions: %s; ratios of times, to completion\n", cpu.instructions);
    const int missed = all.results.print();
    std::printf("%d missed\n", missed);
    return missed == 0 ? 0 : 1;
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// ratios [PASSES]: what was promised of the sync calls' speed, and whether it holds on this
// machine. Everything is measured by turns in random order, and what is compared are the two times
// of one round. A figure is the median of its passes (5), each a median of many rounds.
// Exit status: 0 all held, 1 not all, 2 misuse, 77 this CPU cannot sync.

#include "bench/paired.hpp"
#include "bench/report.hpp"
#include "promises.hpp"
#include "sync_methods.hpp"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <random>
#include <thread>

namespace {

using namespace sync_bench;
using tools::bench::format_size;
using tools::bench::median_ratio;
using tools::bench::now_ns;
using tools::bench::ns_until_complete;
using tools::bench::summarize;
using tools::bench::wait_for_cache_instructions;

constexpr std::size_t KIB = 1024, MIB = KIB * KIB, LARGEST = 64 * MIB;

using round_times = std::vector<std::vector<double>>; ///< of each method, round by round

/// Calls measure(index), which returns nanoseconds, for each method once a round, in random order,
/// for about max_ns. The first round is a warm-up and not in the result.
template <typename Measure>
round_times measure_rounds(std::size_t num_methods, double max_ns, Measure measure) {
    static std::minstd_rand random(2);
    round_times times(num_methods);
    std::vector<std::size_t> order(num_methods);
    for (std::size_t i = 0; i < num_methods; ++i)
        order[i] = i;
    const double begin = now_ns();
    constexpr std::size_t min_rounds = 8, max_rounds = 5000;
    for (std::size_t round = 0;
         round < max_rounds && (round < min_rounds || now_ns() - begin < max_ns); ++round) {
        std::shuffle(order.begin(), order.end(), random);
        for (const std::size_t i : order) {
            const double elapsed_ns = measure(i);
            if (round > 0)
                times[i].push_back(elapsed_ns);
        }
    }
    return times;
}

/// The times to sync the job's ranges, whose lines are in that state (see job::prepare_lines())
/// before each call.
round_times measure_methods(const job &work, const std::string &state,
                            const std::vector<sync_method> &methods, double max_ns) {
    return measure_rounds(methods.size(), max_ns, [&](std::size_t i) {
        work.prepare_lines(state);
        return ns_until_complete(methods[i].run);
    });
}

/// Nanoseconds in which two threads, which begin at the same time, both have synced their dirty
/// lines.
double measure_concurrent(const job &first_job, const sync_method &first_method,
                          const job &second_job, const sync_method &second_method) {
    std::atomic<bool> ready{false}, start{false};
    double second_end = 0;
    std::thread second_thread([&] {
        second_job.prepare_lines("dirty");
        wait_for_cache_instructions();
        ready = true;
        while (!start) {
        }
        second_method.run();
        wait_for_cache_instructions();
        second_end = now_ns();
    });
    first_job.prepare_lines("dirty");
    while (!ready) {
    }
    wait_for_cache_instructions();
    const double begin = now_ns();
    start = true;
    first_method.run();
    wait_for_cache_instructions();
    const double first_end = now_ns();
    second_thread.join();
    return std::max(first_end, second_end) - begin;
}

struct bench {
    device dev = assume_coherency(COHERDMA_NON_COHERENT);
    measured_memory first_memory{LARGEST}, second_memory{MIB};
    std::size_t line_size = 64;
    std::string best_name; ///< the raw loop of the instruction that ours uses before a Read
    promises results{};

    void compare_sizes(const std::string &call,
                       std::vector<sync_method> (*make_methods)(const job &)) {
        for (const char *state : {"dirty", "uncached"})
            for (const std::size_t size :
                 {std::size_t{64}, 4 * KIB, 64 * KIB, MIB, 16 * MIB, LARGEST}) {
                const job work = make_contiguous_job(dev.get(), first_memory, line_size, size);
                const auto methods = make_methods(work);
                const round_times times =
                    measure_methods(work, state, methods, size < 16 * MIB ? 1e8 : 4e8);
                for (std::size_t i = 1; i < methods.size(); ++i) {
                    const bool is_pmem = methods[i].name.starts_with("pmem");
                    const bool must_match = methods[i].name == best_name || call == "write";
                    const double max = is_pmem ? 1.02 : must_match && size >= 64 * KIB ? 1.03 : 0;
                    results.add(call + ", " + state + ", " + format_size(size) + ": to " +
                                    methods[i].name,
                                {0, max}, median_ratio(times[0], times[i]));
                }
            }
    }

    void compare_batches() {
        for (const std::string state : {"dirty", "uncached"})
            for (const std::size_t count : {1U, 4U, 16U, 256U}) {
                const job work = make_scattered_job(dev.get(), first_memory, line_size, count);
                const auto methods = make_batch_methods(work);
                const round_times times = measure_methods(work, state, methods, 2e8);
                const std::string ranges = std::to_string(count) + " ranges, " + state + ": ";
                const bool has_promise = count == 256 && state == "dirty";
                for (std::size_t i = 1; i < methods.size(); ++i) {
                    const std::string &name = methods[i].name;
                    const double min = !has_promise                 ? 0
                                       : name == "pmem_persist"     ? 40
                                       : name == "pmem_flush+drain" ? 1.3
                                                                    : 0;
                    results.add(ranges + name + " to one call", {min, 0},
                                median_ratio(times[i], times[0]));
                    // What no call can do better than, whatever it is.
                    if (min > 0 && methods[1].name.starts_with("raw"))
                        results.add(ranges + name + " to " + methods[1].name, {},
                                    median_ratio(times[i], times[1]));
                }
            }
    }

    void compare_two_threads() {
        const job first_job = make_contiguous_job(dev.get(), first_memory, line_size, MIB);
        const job second_job = make_contiguous_job(dev.get(), second_memory, line_size, MIB);
        const auto first_methods = make_read_methods(first_job),
                   second_methods = make_read_methods(second_job);
        const round_times times = measure_rounds(3, 3e8, [&](std::size_t index) {
            if (index < 2)
                return measure_concurrent(first_job, first_methods[index], second_job,
                                          second_methods[index]);
            first_job.prepare_lines("dirty");
            return 2 * ns_until_complete(first_methods[0].run);
        });
        results.add("two threads, dirty, 1 MiB each: to " + first_methods[1].name, {},
                    median_ratio(times[0], times[1]));
        results.add("two threads, dirty, 1 MiB each: as fast as one", {},
                    median_ratio(times[2], times[0]));
    }

    void measure_coherent() {
        constexpr std::size_t CALLS = 10000;
        const device coherent_dev = assume_coherency(COHERDMA_COHERENT);
        const coherdma_range range = {.addr = reinterpret_cast<const void *>(first_memory.begin()),
                                      .length = 64};
        std::vector<double> call_ns;
        for (int round = 0; round < 200; ++round)
            call_ns.push_back(ns_until_complete([&] {
                                  for (std::size_t call = 0; call < CALLS; ++call)
                                      check_sync(
                                          coherdma_sync_before_read(coherent_dev.get(), &range, 1));
                              }) /
                              CALLS);
        results.add("ns of a call on a coherent device", {0, 25}, summarize(call_ns).p50);
    }
};

} // namespace

int main(int argc, char **argv) {
    const int passes = argc > 1 ? std::atoi(argv[1]) : 5;
    if (passes < 1 || argc > 2) {
        std::fprintf(stderr, "usage: ratios [PASSES]\n");
        return 2;
    }
    bench run;
    if (!run.dev) {
        std::fprintf(stderr, "ratios: %s\n", coherdma_error());
        return 77;
    }
    coherdma_cpu_attr cpu{};
    coherdma_query_cpu(&cpu, sizeof cpu);
    run.line_size = cpu.line_size;
    run.best_name = std::string("raw ") + cpu.instructions;
    for (int pass = 0; pass < passes; ++pass) {
        run.compare_sizes("read", make_read_methods);
        run.compare_sizes("write", make_write_methods);
        run.compare_batches();
        run.compare_two_threads();
        run.measure_coherent();
    }
    std::printf("instructions: %s; ratios of times, to completion\n", cpu.instructions);
    const int num_missed = run.results.print();
    std::printf("%d missed\n", num_missed);
    return num_missed == 0 ? 0 : 1;
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "measure.hpp"
#include "measured_memory.hpp"
#include "paired.hpp"

#include <algorithm>
#include <coherdma/coherdma.h>
#include <infiniband/verbs.h>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>

namespace tools::bench {
namespace {

/// Everything is measured in several passes, so that a temporary slowdown of the machine affects
/// all results alike. The limits are those of one measurement in one pass.
constexpr std::size_t NUM_PASSES = 5;
constexpr round_limits FULL{.warmup = 2, .min_rounds = 4, .max_rounds = 800, .max_ns = 30e6};
constexpr round_limits QUICK{.warmup = 1, .min_rounds = 3, .max_rounds = 200, .max_ns = 3e6};

/// Scattered ranges lie in memory of this size.
constexpr std::size_t SCATTER_BYTES = std::size_t{2} << 20;

using unique_device = std::unique_ptr<coherdma_device, decltype(&coherdma_close_device)>;

/// A handle that behaves as if for a device of this coherency, but with no device behind it.
/// instructions: nullptr for the default ones.
unique_device open_without_device(const char *instructions, coherdma_coherency coherency) {
    coherdma_open_attr attr{};
    attr.flags = COHERDMA_OPEN_ASSUME;
    attr.instructions = instructions;
    attr.assume = coherency;
    unique_device dev(coherdma_open_device_ex(&attr, sizeof attr), &coherdma_close_device);
    if (!dev)
        throw std::runtime_error(coherdma_error());
    return dev;
}

coherdma_range make_range(std::uintptr_t begin, std::size_t bytes) {
    return {.addr = reinterpret_cast<const void *>(begin), .length = bytes};
}

void throw_if_failed(int error) {
    if (error != 0)
        throw std::runtime_error(coherdma_error());
}

/// Brings the lines of the measured range into timing.line_state.
void prepare_lines(const measured_memory &memory, const coherdma_device *dev,
                   const sync_timing &timing, std::size_t line_size) {
    if (timing.line_state == "dirty")
        return memory.make_lines_dirty(timing.bytes, line_size);
    const coherdma_range range = make_range(memory.begin(), timing.bytes);
    throw_if_failed(coherdma_sync_after_write(dev, &range, 1)); // invalidates: they are uncached
    if (timing.line_state == "clean")
        memory.load_lines(timing.bytes, line_size);
}

struct sync_call {
    const char *name;
    bool is_for_peer;  ///< of accesses by peers, not by the device for this program
    bool is_writeback; ///< does not invalidate
    int (*run)(const coherdma_device *, const coherdma_range *);
};
constexpr sync_call SYNC_CALLS[] = {
    {SYNC_BEFORE_READ, true, true,
     [](const coherdma_device *dev, const coherdma_range *range) {
         return coherdma_sync_before_read(dev, range, 1);
     }},
    {SYNC_AFTER_WRITE, true, false,
     [](const coherdma_device *dev, const coherdma_range *range) {
         return coherdma_sync_after_write(dev, range, 1);
     }},
    {SYNC_TO_DEVICE, false, true,
     [](const coherdma_device *dev, const coherdma_range *range) {
         return coherdma_sync_for_device(dev, range, 1, COHERDMA_TO_DEVICE);
     }},
    {SYNC_FROM_DEVICE, false, false,
     [](const coherdma_device *dev, const coherdma_range *range) {
         return coherdma_sync_for_device(dev, range, 1, COHERDMA_FROM_DEVICE);
     }},
    {SYNC_FOR_CPU, false, false,
     [](const coherdma_device *dev, const coherdma_range *range) {
         return coherdma_sync_for_cpu(dev, range, 1, COHERDMA_FROM_DEVICE);
     }},
};

/// The ns per line of what `timing` describes: first of the sync call, second of the raw loop, or
/// nothing if there is no raw loop for the instructions.
sample_pairs measure_sync(const sync_timing &timing, const measured_memory &memory,
                          std::size_t line_size, const round_limits &limits,
                          const stop_predicate &should_stop) {
    const unique_device dev =
        open_without_device(timing.instructions.c_str(), COHERDMA_NON_COHERENT);
    const auto &call =
        *std::find_if(std::begin(SYNC_CALLS), std::end(SYNC_CALLS),
                      [&](const sync_call &each) { return each.name == timing.call; });
    const raw_loop *loop = find_raw_loop(timing.instructions);
    const auto run_raw_loop = !loop               ? nullptr
                              : call.is_writeback ? loop->writeback
                                                  : loop->writeback_invalidate;
    const coherdma_range range = make_range(memory.begin(), timing.bytes);
    const auto measure_call = [&] {
        prepare_lines(memory, dev.get(), timing, line_size);
        return ns_until_complete([&] { throw_if_failed(call.run(dev.get(), &range)); });
    };
    const auto measure_raw_loop = [&] {
        if (!run_raw_loop)
            return 0.0;
        prepare_lines(memory, dev.get(), timing, line_size);
        return ns_until_complete(
            [&] { run_raw_loop(memory.begin(), memory.begin() + timing.bytes, line_size); });
    };
    sample_pairs samples =
        measure_paired(limits, should_stop, timing.num_lines, measure_call, measure_raw_loop);
    if (!run_raw_loop)
        samples.second.clear();
    return samples;
}

/// Ranges of one line each, in an order that is random, but the same in every run.
std::vector<coherdma_range> make_scattered_ranges(const measured_memory &memory,
                                                  std::size_t num_ranges, std::size_t line_size) {
    std::vector<std::size_t> line_indices(SCATTER_BYTES / line_size);
    std::iota(line_indices.begin(), line_indices.end(), 0);
    std::shuffle(line_indices.begin(), line_indices.end(), std::minstd_rand(1));
    std::vector<coherdma_range> ranges;
    for (std::size_t i = 0; i < num_ranges; ++i)
        ranges.push_back(make_range(memory.begin() + line_indices[i] * line_size, line_size));
    return ranges;
}

/// The ns for all ranges: first with one call, second with a call for each.
sample_pairs measure_scattered(std::size_t num_ranges, const char *instructions,
                               const measured_memory &memory, std::size_t line_size,
                               const round_limits &limits, const stop_predicate &should_stop) {
    const unique_device dev = open_without_device(instructions, COHERDMA_NON_COHERENT);
    const std::vector<coherdma_range> ranges = make_scattered_ranges(memory, num_ranges, line_size);
    const auto make_lines_dirty = [&] {
        for (const coherdma_range &range : ranges)
            ++*static_cast<unsigned char *>(const_cast<void *>(range.addr));
    };
    const auto measure_one_call = [&] {
        make_lines_dirty();
        return ns_until_complete([&] {
            throw_if_failed(coherdma_sync_before_read(dev.get(), ranges.data(), ranges.size()));
        });
    };
    const auto measure_call_per_range = [&] {
        make_lines_dirty();
        return ns_until_complete([&] {
            for (const coherdma_range &range : ranges)
                throw_if_failed(coherdma_sync_before_read(dev.get(), &range, 1));
        });
    };
    return measure_paired(limits, should_stop, 1, measure_one_call, measure_call_per_range);
}

/// The ns of a call on a coherent device; only `first` is used. A sample is the mean of many calls,
/// since one is too short for the clock's resolution.
sample_pairs measure_coherent(const measured_memory &memory, std::size_t line_size,
                              const round_limits &limits, const stop_predicate &should_stop) {
    constexpr std::size_t NUM_CALLS = 1000;
    const unique_device dev = open_without_device(nullptr, COHERDMA_COHERENT);
    const coherdma_range range = make_range(memory.begin(), line_size);
    const auto measure_calls = [&] {
        return ns_until_complete([&] {
            for (std::size_t i = 0; i < NUM_CALLS; ++i)
                throw_if_failed(coherdma_sync_before_read(dev.get(), &range, 1));
        });
    };
    return measure_paired(limits, should_stop, NUM_CALLS, measure_calls, [] { return 0.0; });
}

/// What to measure, without times yet: each combination of instructions, call, state and size; with
/// other than the default instructions only the calls for a peer's accesses.
std::vector<sync_timing> list_combinations(const std::vector<std::string> &instruction_sets,
                                           const measurements &results) {
    std::vector<sync_timing> timings;
    for (const std::string &instructions : instruction_sets)
        for (const sync_call &call : SYNC_CALLS) {
            if (!call.is_for_peer && instructions != results.default_instructions)
                continue;
            for (const char *line_state : LINE_STATES)
                for (const std::size_t bytes : results.options.sizes) {
                    sync_timing &timing = timings.emplace_back();
                    timing.instructions = instructions;
                    timing.call = call.name;
                    timing.line_state = line_state;
                    timing.bytes = bytes;
                    timing.num_lines =
                        (bytes + results.machine.line_size - 1) / results.machine.line_size;
                }
        }
    return timings;
}

} // namespace

double measure_clock_read_ns() {
    std::vector<double> times;
    for (int i = 0; i < 1000; ++i)
        times.push_back(ns_until_complete([] {}));
    return summarize(times).p50;
}

/// Each pass measures everything once; the samples of all passes are summarized at the end, also
/// when should_stop() ends the measurement early.
void measure(measurements &results, const std::vector<std::string> &instruction_sets,
             const stop_predicate &should_stop, const progress_function &report_progress) {
    constexpr std::size_t NUM_RANGES[] = {1, 4, 16, 256}; // of the scattered timings
    const round_limits &limits = results.options.quick ? QUICK : FULL;
    const std::size_t line_size = results.machine.line_size;
    const std::size_t max_bytes =
        *std::max_element(results.options.sizes.begin(), results.options.sizes.end());
    const measured_memory memory(std::max(max_bytes + line_size, SCATTER_BYTES));
    std::vector<sync_timing> timings = list_combinations(instruction_sets, results);
    // Of all passes; by the index in timings and in NUM_RANGES.
    std::vector<sample_pairs> timing_samples(timings.size());
    std::vector<sample_pairs> scattered_samples(std::size(NUM_RANGES));
    sample_pairs coherent_samples;
    const std::size_t num_steps = NUM_PASSES * (timings.size() + std::size(NUM_RANGES) + 1);
    std::size_t num_done = 0;

    for (std::size_t pass = 0; pass < NUM_PASSES && !should_stop(); ++pass) {
        report_progress(num_done++, num_steps, "a coherent device");
        coherent_samples.append(measure_coherent(memory, line_size, limits, should_stop));
        for (std::size_t i = 0; i < std::size(NUM_RANGES); ++i) {
            report_progress(num_done++, num_steps, "scattered ranges");
            scattered_samples[i].append(measure_scattered(NUM_RANGES[i],
                                                          results.default_instructions.c_str(),
                                                          memory, line_size, limits, should_stop));
        }
        for (std::size_t i = 0; i < timings.size(); ++i) {
            report_progress(num_done++, num_steps,
                            timings[i].instructions + ", " + timings[i].line_state);
            timing_samples[i].append(
                measure_sync(timings[i], memory, line_size, limits, should_stop));
        }
    }
    results.coherent_call_ns = summarize(coherent_samples.first);
    for (std::size_t i = 0; i < std::size(NUM_RANGES); ++i) {
        const auto &[one_call, call_per_range] = scattered_samples[i];
        if (!one_call.empty())
            results.scattered.push_back({NUM_RANGES[i], summarize(one_call),
                                         summarize(call_per_range),
                                         median_ratio(call_per_range, one_call)});
    }
    for (std::size_t i = 0; i < timings.size(); ++i) {
        const auto &[sync_call, raw_loop] = timing_samples[i];
        timings[i].ns_per_line = summarize(sync_call);
        timings[i].raw_loop_ns_per_line = summarize(raw_loop);
        timings[i].ratio_to_raw_loop = median_ratio(sync_call, raw_loop);
        if (!sync_call.empty())
            results.timings.push_back(std::move(timings[i]));
    }
    results.interrupted = should_stop();
}

} // namespace tools::bench

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "measure.hpp"
#include "memory.hpp"
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
/// all results alike.
constexpr std::size_t PASSES = 5;
constexpr sample_budget FULL{2, 4, 800, 30e6}, QUICK{1, 1, 200, 3e6};
constexpr std::size_t SCATTER_BYTES = std::size_t{2} << 20;

using device = std::unique_ptr<coherdma_device, decltype(&coherdma_close_device)>;

device open(const char *instructions, coherdma_coherency coherency) {
    coherdma_open_attr attr{};
    attr.flags = COHERDMA_OPEN_ASSUME;
    attr.instructions = instructions;
    attr.assume = coherency;
    device dev(coherdma_open_device_ex(&attr, sizeof attr), &coherdma_close_device);
    if (!dev)
        throw std::runtime_error(coherdma_error());
    return dev;
}

ibv_sge make_range(std::uintptr_t begin, std::size_t bytes) {
    return {begin, static_cast<std::uint32_t>(bytes), 0};
}

/// Brings the lines into the state to measure.
void prepare(const memory &bytes, const coherdma_device *dev, const sync_timing &timing,
             std::size_t line) {
    if (timing.line_state == "dirty")
        return bytes.dirty(timing.bytes, line);
    const ibv_sge range = make_range(bytes.begin(), timing.bytes);
    coherdma_sync_rdma_write(dev, &range, 1);
    if (timing.line_state == "clean")
        bytes.load(timing.bytes, line);
}

sample_pairs measure_sync(const sync_timing &timing, const memory &bytes, std::size_t line,
                          const sample_budget &budget, const stop_predicate &should_stop) {
    const device dev = open(timing.instructions.c_str(), COHERDMA_NON_COHERENT);
    const bool read = timing.call == "read";
    const auto call = read ? coherdma_sync_rdma_read : coherdma_sync_rdma_write;
    const raw_loop *loop = find_raw_loop(timing.instructions);
    const auto raw_function = !loop ? nullptr : read ? loop->writeback : loop->writeback_invalidate;
    const ibv_sge range = make_range(bytes.begin(), timing.bytes);
    const auto time_call = [&] {
        prepare(bytes, dev.get(), timing, line);
        return timed_ns([&] { call(dev.get(), &range, 1); });
    };
    const auto time_raw = [&] {
        if (!raw_function)
            return 0.0;
        prepare(bytes, dev.get(), timing, line);
        return timed_ns([&] { raw_function(bytes.begin(), bytes.begin() + timing.bytes, line); });
    };
    sample_pairs samples = measure_paired(budget, should_stop, timing.lines, time_call, time_raw);
    if (!raw_function)
        samples.second.clear();
    return samples;
}

sample_pairs measure_batch(const batch &b, const char *instructions, const memory &bytes,
                           std::size_t line, const sample_budget &budget,
                           const stop_predicate &should_stop) {
    const device dev = open(instructions, COHERDMA_NON_COHERENT);
    std::vector<std::size_t> line_indices(SCATTER_BYTES / line);
    std::iota(line_indices.begin(), line_indices.end(), 0);
    std::shuffle(line_indices.begin(), line_indices.end(),
                 std::minstd_rand(1)); // the same order in every run
    std::vector<ibv_sge> ranges;
    for (std::size_t i = 0; i < b.segments; ++i)
        ranges.push_back(make_range(bytes.begin() + line_indices[i] * line, line));
    const auto make_dirty = [&] {
        for (const ibv_sge &range : ranges)
            ++*reinterpret_cast<unsigned char *>(range.addr);
    };
    const auto one_call = [&] {
        make_dirty();
        return timed_ns([&] { coherdma_sync_rdma_read(dev.get(), ranges.data(), ranges.size()); });
    };
    const auto calls_each = [&] {
        make_dirty();
        return timed_ns([&] {
            for (const ibv_sge &range : ranges)
                coherdma_sync_rdma_read(dev.get(), &range, 1);
        });
    };
    return measure_paired(budget, should_stop, 1, one_call, calls_each);
}

/// One call is too short for the clock's resolution.
sample_pairs measure_coherent(const memory &bytes, std::size_t line, const sample_budget &budget,
                              const stop_predicate &should_stop) {
    constexpr std::size_t CALLS = 1000;
    const device dev = open(nullptr, COHERDMA_COHERENT);
    const ibv_sge range = make_range(bytes.begin(), line);
    const auto time_calls = [&] {
        return timed_ns([&] {
            for (std::size_t i = 0; i < CALLS; ++i)
                coherdma_sync_rdma_read(dev.get(), &range, 1);
        });
    };
    return measure_paired(budget, should_stop, CALLS, time_calls, [] { return 0.0; });
}

std::vector<sync_timing> make_timings(const std::vector<std::string> &choices,
                                      const measurement_options &opts, std::size_t line) {
    std::vector<sync_timing> timings;
    for (const std::string &choice : choices)
        for (const char *call : {"read", "write"})
            for (const char *state : {"dirty", "clean", "uncached"})
                for (const std::size_t bytes : opts.sizes)
                    timings.push_back(
                        {choice, call, state, bytes, (bytes + line - 1) / line, {}, {}, 0});
    return timings;
}

} // namespace

double clock_cost_ns() {
    std::vector<double> times;
    for (int i = 0; i < 1000; ++i)
        times.push_back(timed_ns([] {}));
    return summarize(times).p50;
}

void measure(measurements &out, const std::vector<std::string> &choices,
             const stop_predicate &should_stop, const progress &report_progress) {
    const sample_budget &budget = out.options.quick ? QUICK : FULL;
    const std::size_t line = out.host.line_bytes;
    const std::size_t max_bytes =
        *std::max_element(out.options.sizes.begin(), out.options.sizes.end());
    const memory bytes(std::max(max_bytes + line, SCATTER_BYTES));
    std::vector<sync_timing> timings = make_timings(choices, out.options, line);
    std::vector<batch> batches{{1, {}, {}, 0}, {4, {}, {}, 0}, {16, {}, {}, 0}, {256, {}, {}, 0}};
    std::vector<sample_pairs> timing_samples(timings.size()), batch_samples(batches.size());
    sample_pairs coherent;
    const std::size_t total = PASSES * (timings.size() + batches.size() + 1);
    std::size_t done = 0;

    for (std::size_t pass = 0; pass < PASSES && !should_stop(); ++pass) {
        report_progress(done++, total, "a coherent device");
        coherent.append(measure_coherent(bytes, line, budget, should_stop));
        for (std::size_t i = 0; i < batches.size(); ++i) {
            report_progress(done++, total, "batches");
            batch_samples[i].append(measure_batch(batches[i], out.batch_instructions.c_str(), bytes,
                                                  line, budget, should_stop));
        }
        for (std::size_t i = 0; i < timings.size(); ++i) {
            report_progress(done++, total, timings[i].instructions + ", " + timings[i].line_state);
            timing_samples[i].append(measure_sync(timings[i], bytes, line, budget, should_stop));
        }
    }
    out.coherent_call_ns = summarize(coherent.first);
    for (std::size_t i = 0; i < batches.size(); ++i) {
        const auto &[one_call, calls_each] = batch_samples[i];
        if (!one_call.empty())
            out.batches.push_back({batches[i].segments, summarize(one_call), summarize(calls_each),
                                   median_ratio(calls_each, one_call)});
    }
    for (std::size_t i = 0; i < timings.size(); ++i) {
        const auto &[call, raw] = timing_samples[i];
        timings[i].ns_per_line = summarize(call);
        timings[i].raw_ns_per_line = summarize(raw);
        timings[i].ratio = median_ratio(call, raw);
        if (!call.empty())
            out.timings.push_back(std::move(timings[i]));
    }
    out.interrupted = should_stop();
}

} // namespace tools::bench

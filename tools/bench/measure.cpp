// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "measure.hpp"
#include "memory.hpp"
#include "pairs.hpp"

#include <algorithm>
#include <coherdma/coherdma.h>
#include <infiniband/verbs.h>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>

namespace tools::bench {
namespace {

/// All is measured several times over, for a machine may be slow for a while, and what was measured
/// then would stand out for no reason.
constexpr std::size_t PASSES = 5;
constexpr patience FULL{2, 4, 800, 30e6}, QUICK{1, 1, 200, 3e6};
constexpr std::size_t SCATTERED_OVER = std::size_t{2} << 20;

using device = std::unique_ptr<coherdma_device, decltype(&coherdma_close)>;

device open(const char *instructions, coherdma_verdict verdict) {
    coherdma_open_attr attr{};
    attr.flags = COHERDMA_OPEN_ASSUME;
    attr.instructions = instructions;
    attr.assume = verdict;
    device opened(coherdma_open(&attr, sizeof attr), &coherdma_close);
    if (!opened)
        throw std::runtime_error(coherdma_error());
    return opened;
}

ibv_sge range(std::uintptr_t begin, std::size_t bytes) {
    return {begin, static_cast<std::uint32_t>(bytes), 0};
}

/// From wherever the lines were before to that state.
void prepare(const memory &bytes, const coherdma_device *on, const cell &what, std::size_t line) {
    if (what.state == "dirty")
        return bytes.dirty(what.bytes, line);
    const ibv_sge whole = range(bytes.begin(), what.bytes);
    coherdma_sync_rdma_write(on, &whole, 1);
    if (what.state == "clean")
        bytes.load(what.bytes, line);
}

pairs measure_cell(const cell &what, const memory &bytes, std::size_t line, const patience &how,
                   const stop_wish &stop) {
    const device on = open(what.instructions.c_str(), COHERDMA_NON_COHERENT);
    const bool read = what.call == "read";
    const auto call = read ? coherdma_sync_rdma_read : coherdma_sync_rdma_write;
    const raw_loop *found = find_raw(what.instructions);
    const auto raw = !found ? nullptr : read ? found->clean : found->flush;
    const ibv_sge whole = range(bytes.begin(), what.bytes);
    const auto by_call = [&] {
        prepare(bytes, on.get(), what, line);
        return timed_ns([&] { call(on.get(), &whole, 1); });
    };
    const auto by_raw = [&] {
        if (!raw)
            return 0.0;
        prepare(bytes, on.get(), what, line);
        return timed_ns([&] { raw(bytes.begin(), bytes.begin() + what.bytes, line); });
    };
    pairs got = measure_pairs(how, stop, what.lines, by_call, by_raw);
    if (!raw)
        got.other.clear();
    return got;
}

pairs measure_batch(const batch &what, const char *instructions, const memory &bytes,
                    std::size_t line, const patience &how, const stop_wish &stop) {
    const device on = open(instructions, COHERDMA_NON_COHERENT);
    std::vector<std::size_t> places(SCATTERED_OVER / line);
    std::iota(places.begin(), places.end(), 0);
    std::shuffle(places.begin(), places.end(), std::minstd_rand(1)); // the same on every run
    std::vector<ibv_sge> list;
    for (std::size_t place = 0; place < what.segments; ++place)
        list.push_back(range(bytes.begin() + places[place] * line, line));
    const auto dirty = [&] {
        for (const ibv_sge &each : list)
            ++*reinterpret_cast<unsigned char *>(each.addr);
    };
    const auto one_call = [&] {
        dirty();
        return timed_ns([&] { coherdma_sync_rdma_read(on.get(), list.data(), list.size()); });
    };
    const auto calls_each = [&] {
        dirty();
        return timed_ns([&] {
            for (const ibv_sge &each : list)
                coherdma_sync_rdma_read(on.get(), &each, 1);
        });
    };
    return measure_pairs(how, stop, 1, one_call, calls_each);
}

/// So short that it takes many to be seen beside the clock.
pairs measure_coherent(const memory &bytes, std::size_t line, const patience &how,
                       const stop_wish &stop) {
    constexpr std::size_t CALLS = 1000;
    const device on = open(nullptr, COHERDMA_COHERENT);
    const ibv_sge one = range(bytes.begin(), line);
    const auto calls = [&] {
        return timed_ns([&] {
            for (std::size_t call = 0; call < CALLS; ++call)
                coherdma_sync_rdma_read(on.get(), &one, 1);
        });
    };
    return measure_pairs(how, stop, CALLS, calls, [] { return 0.0; });
}

std::vector<cell> plan(const std::vector<std::string> &choices, const options &how,
                       std::size_t line) {
    std::vector<cell> cells;
    for (const std::string &choice : choices)
        for (const char *call : {"read", "write"})
            for (const char *state : {"dirty", "clean", "uncached"})
                for (const std::size_t bytes : how.sizes)
                    cells.push_back(
                        {choice, call, state, bytes, (bytes + line - 1) / line, {}, {}, 0});
    return cells;
}

} // namespace

double clock_cost_ns() {
    std::vector<double> took;
    for (int round = 0; round < 1000; ++round)
        took.push_back(timed_ns([] {}));
    return summarize(took).p50;
}

void measure(results &all, const std::vector<std::string> &choices, const stop_wish &stop,
             const progress &tell) {
    const patience &how = all.how.quick ? QUICK : FULL;
    const std::size_t line = all.where.line_bytes;
    const std::size_t most = *std::max_element(all.how.sizes.begin(), all.how.sizes.end());
    const memory bytes(std::max(most + line, SCATTERED_OVER));
    std::vector<cell> cells = plan(choices, all.how, line);
    std::vector<batch> batches{{1, {}, {}, 0}, {4, {}, {}, 0}, {16, {}, {}, 0}, {256, {}, {}, 0}};
    std::vector<pairs> of_cells(cells.size()), of_batches(batches.size());
    pairs coherent;
    const std::size_t total = PASSES * (cells.size() + batches.size() + 1);
    std::size_t done = 0;

    for (std::size_t pass = 0; pass < PASSES && !stop(); ++pass) {
        tell(done++, total, "a coherent device");
        coherent.append(measure_coherent(bytes, line, how, stop));
        for (std::size_t each = 0; each < batches.size(); ++each) {
            tell(done++, total, "batches");
            of_batches[each].append(
                measure_batch(batches[each], all.instructions.c_str(), bytes, line, how, stop));
        }
        for (std::size_t each = 0; each < cells.size(); ++each) {
            tell(done++, total, cells[each].instructions + ", " + cells[each].state);
            of_cells[each].append(measure_cell(cells[each], bytes, line, how, stop));
        }
    }
    all.coherent_ns = summarize(coherent.mine);
    for (std::size_t each = 0; each < batches.size(); ++each) {
        const auto &[one, many] = of_batches[each];
        if (!one.empty())
            all.batches.push_back(
                {batches[each].segments, summarize(one), summarize(many), median_ratio(many, one)});
    }
    for (std::size_t each = 0; each < cells.size(); ++each) {
        const auto &[call, raw] = of_cells[each];
        cells[each].call_ns = summarize(call);
        cells[each].raw_ns = summarize(raw);
        cells[each].ratio = median_ratio(call, raw);
        if (!call.empty())
            all.cells.push_back(std::move(cells[each]));
    }
    all.interrupted = stop();
}

} // namespace tools::bench

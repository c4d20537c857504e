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

constexpr patience FULL{5, 7, 4000, 150e6}, QUICK{1, 3, 1000, 15e6};
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

void fill(cell &what, const memory &bytes, std::size_t line, const patience &how,
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
    const pairs got = measure_pairs(how, stop, what.lines, by_call, by_raw);
    what.call_ns = summarize(got.mine);
    if (raw) {
        what.raw_ns = summarize(got.other);
        what.ratio = median_ratio(got.mine, got.other);
    }
}

void fill(batch &what, const char *instructions, const memory &bytes, std::size_t line,
          const patience &how, const stop_wish &stop) {
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
    const pairs got = measure_pairs(how, stop, 1, one_call, calls_each);
    what.one_call_ns = summarize(got.mine);
    what.calls_each_ns = summarize(got.other);
    what.ratio = median_ratio(got.other, got.mine);
}

/// So short that it takes many to be seen beside the clock.
summary coherent_call(const memory &bytes, std::size_t line, const patience &how,
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
    return summarize(measure_pairs(how, stop, CALLS, calls, [] { return 0.0; }).mine);
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
    const std::size_t counts[] = {1, 4, 16, 256};
    const std::size_t total = cells.size() + std::size(counts) + 1;
    std::size_t done = 0;

    tell(done++, total, "a coherent device");
    all.coherent_ns = coherent_call(bytes, line, how, stop);
    for (const std::size_t count : counts) {
        tell(done++, total, "batches");
        batch one{count, {}, {}, 0};
        fill(one, all.instructions.c_str(), bytes, line, how, stop);
        if (one.one_call_ns.count > 0)
            all.batches.push_back(one);
    }
    for (cell &each : cells) {
        tell(done++, total, each.instructions + ", " + each.state);
        fill(each, bytes, line, how, stop);
        if (each.call_ns.count > 0)
            all.cells.push_back(std::move(each));
        if (stop())
            break;
    }
    all.interrupted = stop();
}

} // namespace tools::bench

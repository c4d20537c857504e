// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The contestants as Google benchmarks. For ratios, and whether they meet what was promised, see
// ratios.cpp: on a machine that others use too, only what is measured by turns can be compared.

#include "bench/paired.hpp"
#include "contestants.hpp"

#include <benchmark/benchmark.h>
#include <cstdio>

namespace {

using namespace sync_bench;

constexpr std::size_t LARGEST = std::size_t{64} << 20;

struct place {
    device dev = assume(COHERDMA_NON_COHERENT);
    memory bytes{LARGEST};
};

/// By name, for each thread has memory of its own.
using maker = std::vector<contestant> (*)(const job &);

void timed(benchmark::State &state, const job &work, const contestant &who,
           const std::string &lines) {
    std::size_t bytes = 0;
    for (const ibv_sge &each : work.list)
        bytes += each.length;
    for (auto round : state) {
        static_cast<void>(round);
        work.make(lines);
        state.SetIterationTime(tools::bench::timed_ns(who.run) * 1e-9);
    }
    const auto total = static_cast<double>(state.iterations()) * static_cast<double>(bytes);
    state.SetBytesProcessed(static_cast<std::int64_t>(total));
    state.counters["lines"] = static_cast<double>(bytes / work.line);
}

void add(const std::string &name, maker make, std::size_t which, const std::string &lines,
         std::size_t size, bool batch, std::size_t line) {
    auto *added = benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State &state) {
        const place target;
        const job work = batch ? scattered(target.dev.get(), target.bytes, line, size)
                               : contiguous(target.dev.get(), target.bytes, line, size);
        timed(state, work, make(work)[which], lines);
    });
    added->UseManualTime();
    if (!batch && size == std::size_t{1} << 20)
        added->Threads(1)->Threads(2);
}

void add_all(const std::string &group, maker make, const std::vector<std::string> &states,
             const std::vector<std::size_t> &sizes, bool batch, std::size_t line) {
    const job none;
    const std::vector<contestant> all = make(none);
    for (const std::string &state : states)
        for (const std::size_t size : sizes)
            for (std::size_t which = 0; which < all.size(); ++which)
                add(group + "/" + state + "/" + std::to_string(size) + "/" + all[which].name, make,
                    which, state, size, batch, line);
}

void coherent_call(benchmark::State &state) {
    const device dev = assume(COHERDMA_COHERENT);
    alignas(64) unsigned char bytes[64] = {};
    const ibv_sge sge{reinterpret_cast<std::uintptr_t>(bytes), sizeof bytes, 0};
    for (auto round : state) {
        static_cast<void>(round);
        coherdma_sync_rdma_read(dev.get(), &sge, 1);
    }
}

} // namespace

int main(int count, char **words) {
    coherdma_cpu_attr cpu{};
    coherdma_query_cpu(&cpu, sizeof cpu);
    if (!assume(COHERDMA_NON_COHERENT)) {
        std::fprintf(stderr, "sync_bench: %s\n", coherdma_error());
        return 77;
    }
    const std::vector<std::size_t> sizes{64, 4096, 65536, 1 << 20, 16 << 20, LARGEST};
    add_all("read", readers, {"dirty", "uncached"}, sizes, false, cpu.line_size);
    add_all("write", writers, {"dirty", "uncached"}, sizes, false, cpu.line_size);
    add_all("batch", batchers, {"dirty"}, {1, 4, 16, 256}, true, cpu.line_size);
    benchmark::RegisterBenchmark("coherent", coherent_call);
    benchmark::Initialize(&count, words);
    if (benchmark::ReportUnrecognizedArguments(count, words))
        return 2;
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}

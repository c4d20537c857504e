// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The methods as Google benchmarks. For ratios, and whether they meet what was promised, see
// ratios.cpp: on a machine that others use too, only what is measured by turns can be compared.

#include "bench/paired.hpp"
#include "sync_methods.hpp"

#include <benchmark/benchmark.h>
#include <cstdio>

namespace {

using namespace sync_bench;

constexpr std::size_t LARGEST = std::size_t{64} << 20;

struct sync_target {
    device dev = assume_coherency(COHERDMA_NON_COHERENT);
    measured_memory buffer{LARGEST};
};

/// Each thread of a benchmark makes its own methods, for its own memory.
using methods_maker = std::vector<sync_method> (*)(const job &);

/// Times the method alone, not the preparation of the lines.
void run_method(benchmark::State &state, const job &work, const sync_method &timed_method,
                const std::string &line_state) {
    std::size_t bytes = 0;
    for (const coherdma_range &each : work.ranges)
        bytes += each.length;
    for (auto round : state) {
        static_cast<void>(round);
        work.prepare_lines(line_state);
        state.SetIterationTime(tools::bench::ns_until_complete(timed_method.run) * 1e-9);
    }
    const auto total = static_cast<double>(state.iterations()) * static_cast<double>(bytes);
    state.SetBytesProcessed(static_cast<std::int64_t>(total));
    state.counters["lines"] = static_cast<double>(bytes / work.line_size);
}

/// index: of the timed method among those of make_methods. size: is_batch ? the number of ranges,
/// of one line each : the bytes of one range. That of 1 MiB also runs in two threads.
void register_benchmark(const std::string &name, methods_maker make_methods, std::size_t index,
                        const std::string &line_state, std::size_t size, bool is_batch,
                        std::size_t line_size) {
    auto *registered = benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State &state) {
        const sync_target target;
        const job work =
            is_batch ? make_scattered_job(target.dev.get(), target.buffer, line_size, size)
                     : make_contiguous_job(target.dev.get(), target.buffer, line_size, size);
        run_method(state, work, make_methods(work)[index], line_state);
    });
    registered->UseManualTime();
    if (!is_batch && size == std::size_t{1} << 20)
        registered->Threads(1)->Threads(2);
}

/// One benchmark for each state of the lines, size and method of the group.
void register_benchmarks(const std::string &group, methods_maker make_methods,
                         const std::vector<std::string> &states,
                         const std::vector<std::size_t> &sizes, bool is_batch,
                         std::size_t line_size) {
    const job empty_job; // only for the methods' names
    const std::vector<sync_method> methods = make_methods(empty_job);
    for (const std::string &state : states)
        for (const std::size_t size : sizes)
            for (std::size_t index = 0; index < methods.size(); ++index)
                register_benchmark(group + "/" + state + "/" + std::to_string(size) + "/" +
                                       methods[index].name,
                                   make_methods, index, state, size, is_batch, line_size);
}

/// A sync call on a coherent device, which has nothing to do.
void run_coherent_call(benchmark::State &state) {
    const device dev = assume_coherency(COHERDMA_COHERENT);
    alignas(64) unsigned char bytes[64] = {};
    const coherdma_range range = {.addr = bytes, .length = sizeof bytes};
    for (auto round : state) {
        static_cast<void>(round);
        check_sync(coherdma_sync_before_read(dev.get(), &range, 1));
    }
}

} // namespace

int main(int argc, char **argv) {
    coherdma_cpu_attr cpu{};
    coherdma_query_cpu(&cpu, sizeof cpu);
    if (!assume_coherency(COHERDMA_NON_COHERENT)) {
        std::fprintf(stderr, "sync_bench: %s\n", coherdma_error());
        return 77;
    }
    const std::vector<std::size_t> sizes{64, 4096, 65536, 1 << 20, 16 << 20, LARGEST};
    register_benchmarks("read", make_read_methods, {"dirty", "uncached"}, sizes, /*is_batch=*/false,
                        cpu.line_size);
    register_benchmarks("write", make_write_methods, {"dirty", "uncached"}, sizes,
                        /*is_batch=*/false, cpu.line_size);
    register_benchmarks("batch", make_batch_methods, {"dirty"}, {1, 4, 16, 256}, /*is_batch=*/true,
                        cpu.line_size);
    benchmark::RegisterBenchmark("coherent", run_coherent_call);
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv))
        return 2;
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}

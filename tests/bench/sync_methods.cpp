// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "sync_methods.hpp"
#include "bench/raw_loop.hpp"

#include <algorithm>
#include <libpmem.h>
#include <numeric>
#include <random>

namespace sync_bench {
namespace {

using tools::bench::find_raw_loop;
using loop_function = void (*)(std::uintptr_t, std::uintptr_t, std::size_t);

void *range_begin(const ibv_sge &range) {
    return reinterpret_cast<void *>(range.addr);
}

sync_method make_raw_loop(const job &work, const std::string &name, loop_function loop) {
    return {name, [&work, loop] {
                for (const ibv_sge &each : work.ranges)
                    loop(each.addr, each.addr + each.length, work.line_size);
            }};
}

sync_method make_coherdma_read(const job &work) {
    return {"coherdma", [&work] {
                coherdma_sync_rdma_read(work.dev, work.ranges.data(), work.ranges.size());
            }};
}

sync_method make_pmem_flush(const job &work) {
    return {"pmem_flush+drain", [&work] {
                for (const ibv_sge &each : work.ranges)
                    pmem_flush(range_begin(each), each.length);
                pmem_drain();
            }};
}

sync_method make_pmem_persist(const job &work) {
    return {"pmem_persist", [&work] {
                for (const ibv_sge &each : work.ranges)
                    pmem_persist(range_begin(each), each.length);
            }};
}

} // namespace

device assume_coherency(coherdma_coherency coherency) {
    coherdma_open_attr attr{};
    attr.flags = COHERDMA_OPEN_ASSUME;
    attr.assume = coherency;
    return {coherdma_open_device_ex(&attr, sizeof attr), &coherdma_close_device};
}

void job::prepare_lines(const std::string &state) const {
    if (state == "dirty") {
        for (const ibv_sge &each : ranges)
            for (std::uint64_t addr = each.addr; addr < each.addr + each.length; addr += line_size)
                ++*reinterpret_cast<unsigned char *>(addr);
    } else { // "uncached": it writes the lines back and invalidates them
        coherdma_sync_rdma_write(dev, ranges.data(), ranges.size());
    }
}

job make_contiguous_job(const coherdma_device *dev, const measured_memory &buffer, std::size_t line,
                        std::size_t size) {
    return {dev, line, {{buffer.begin(), static_cast<std::uint32_t>(size), 0}}};
}

job make_scattered_job(const coherdma_device *dev, const measured_memory &buffer, std::size_t line,
                       std::size_t count) {
    constexpr std::size_t SPREAD_BYTES = std::size_t{2} << 20;
    std::vector<std::size_t> line_indices(SPREAD_BYTES / line);
    std::iota(line_indices.begin(), line_indices.end(), 0);
    std::shuffle(line_indices.begin(), line_indices.end(), std::minstd_rand(1));
    job work{dev, line, {}};
    for (std::size_t i = 0; i < count; ++i)
        work.ranges.push_back(
            {buffer.begin() + line_indices[i] * line, static_cast<std::uint32_t>(line), 0});
    return work;
}

// Raw loops are those for instructions that this CPU has.
std::vector<sync_method> make_read_methods(const job &work) {
    std::vector<sync_method> methods{make_coherdma_read(work)};
    for (const char *name : {"clwb", "clflushopt"})
        if (const auto *raw = find_raw_loop(name))
            methods.push_back(make_raw_loop(work, std::string("raw ") + name, raw->writeback));
    methods.push_back(make_pmem_flush(work));
    methods.push_back(make_pmem_persist(work));
    return methods;
}

std::vector<sync_method> make_write_methods(const job &work) {
    std::vector<sync_method> methods{{"coherdma", [&work] {
                                          coherdma_sync_rdma_write(work.dev, work.ranges.data(),
                                                                   work.ranges.size());
                                      }}};
    if (const auto *raw = find_raw_loop("clflushopt"))
        methods.push_back(make_raw_loop(work, "raw clflushopt", raw->writeback_invalidate));
    return methods;
}

std::vector<sync_method> make_batch_methods(const job &work) {
    std::vector<sync_method> methods{make_coherdma_read(work)};
    if (const auto *raw = find_raw_loop("clwb"))
        methods.push_back(make_raw_loop(work, "raw clwb", raw->writeback));
    methods.push_back(make_pmem_flush(work));
    methods.push_back(make_pmem_persist(work));
    methods.push_back({"a call each", [&work] {
                           for (const ibv_sge &each : work.ranges)
                               coherdma_sync_rdma_read(work.dev, &each, 1);
                       }});
    return methods;
}

} // namespace sync_bench

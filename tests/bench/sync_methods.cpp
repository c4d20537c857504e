// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "sync_methods.hpp"
#include "bench/raw_loop.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <libpmem.h>
#include <numeric>
#include <random>

namespace sync_bench {
namespace {

using tools::bench::find_raw_loop;
using loop_function = void (*)(std::uintptr_t, std::uintptr_t, std::size_t);

std::uintptr_t begin_of(const coherdma_range &range) {
    return reinterpret_cast<std::uintptr_t>(range.addr);
}

sync_method make_raw_loop(const job &work, const std::string &name, loop_function loop) {
    return {name, [&work, loop] {
                for (const coherdma_range &each : work.ranges)
                    loop(begin_of(each), begin_of(each) + each.length, work.line_size);
            }};
}

sync_method make_coherdma_read(const job &work) {
    return {"coherdma", [&work] {
                check_sync(
                    coherdma_sync_before_read(work.dev, work.ranges.data(), work.ranges.size()));
            }};
}

sync_method make_pmem_flush(const job &work) {
    return {"pmem_flush+drain", [&work] {
                for (const coherdma_range &each : work.ranges)
                    pmem_flush(each.addr, each.length);
                pmem_drain();
            }};
}

sync_method make_pmem_persist(const job &work) {
    return {"pmem_persist", [&work] {
                for (const coherdma_range &each : work.ranges)
                    pmem_persist(each.addr, each.length);
            }};
}

} // namespace

device assume_coherency(coherdma_coherency coherency) {
    coherdma_open_attr attr{};
    attr.flags = COHERDMA_OPEN_ASSUME;
    attr.assume = coherency;
    return {coherdma_open_device_ex(&attr, sizeof attr), &coherdma_close_device};
}

void check_sync(int error) {
    if (error == 0)
        return;
    std::fprintf(stderr, "sync failed: %s\n", coherdma_error());
    std::exit(1);
}

void job::prepare_lines(const std::string &state) const {
    if (state == "dirty") {
        for (const coherdma_range &each : ranges)
            for (std::size_t offset = 0; offset < each.length; offset += line_size)
                ++static_cast<unsigned char *>(const_cast<void *>(each.addr))[offset];
    } else { // "uncached": it writes the lines back and invalidates them
        check_sync(coherdma_sync_after_write(dev, ranges.data(), ranges.size()));
    }
}

job make_contiguous_job(const coherdma_device *dev, const measured_memory &buffer, std::size_t line,
                        std::size_t size) {
    return {.dev = dev,
            .line_size = line,
            .ranges = {{.addr = reinterpret_cast<const void *>(buffer.begin()), .length = size}}};
}

job make_scattered_job(const coherdma_device *dev, const measured_memory &buffer, std::size_t line,
                       std::size_t count) {
    constexpr std::size_t SPREAD_BYTES = std::size_t{2} << 20;
    std::vector<std::size_t> line_indices(SPREAD_BYTES / line);
    std::iota(line_indices.begin(), line_indices.end(), 0);
    std::shuffle(line_indices.begin(), line_indices.end(), std::minstd_rand(1));
    job work = {.dev = dev, .line_size = line, .ranges = {}};
    for (std::size_t i = 0; i < count; ++i)
        work.ranges.push_back(
            {.addr = reinterpret_cast<const void *>(buffer.begin() + line_indices[i] * line),
             .length = line});
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
                                          check_sync(coherdma_sync_after_write(
                                              work.dev, work.ranges.data(), work.ranges.size()));
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
                           for (const coherdma_range &each : work.ranges)
                               check_sync(coherdma_sync_before_read(work.dev, &each, 1));
                       }});
    return methods;
}

} // namespace sync_bench

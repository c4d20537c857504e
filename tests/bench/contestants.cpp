// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "contestants.hpp"
#include "bench/raw.hpp"

#include <algorithm>
#include <libpmem.h>
#include <numeric>
#include <random>

namespace sync_bench {
namespace {

using tools::bench::find_raw_loop;
using loop = void (*)(std::uintptr_t, std::uintptr_t, std::size_t);

void *start(const ibv_sge &range) {
    return reinterpret_cast<void *>(range.addr);
}

contestant bare(const job &work, const std::string &name, loop over) {
    return {name, [&work, over] {
                for (const ibv_sge &each : work.list)
                    over(each.addr, each.addr + each.length, work.line);
            }};
}

contestant ours(const job &work) {
    return {"coherdma", [&work] {
                coherdma_sync_rdma_read(work.dev, work.list.data(), work.list.size());
            }};
}

contestant flush_each(const job &work) {
    return {"pmem_flush+drain", [&work] {
                for (const ibv_sge &each : work.list)
                    pmem_flush(start(each), each.length);
                pmem_drain();
            }};
}

contestant persist_each(const job &work) {
    return {"pmem_persist", [&work] {
                for (const ibv_sge &each : work.list)
                    pmem_persist(start(each), each.length);
            }};
}

} // namespace

device assume(coherdma_verdict verdict) {
    coherdma_open_attr attr{};
    attr.flags = COHERDMA_OPEN_ASSUME;
    attr.assume = verdict;
    return {coherdma_open(&attr, sizeof attr), &coherdma_close};
}

void job::make(const std::string &state) const {
    if (state == "dirty") {
        for (const ibv_sge &each : list)
            for (std::uint64_t addr = each.addr; addr < each.addr + each.length; addr += line)
                ++*reinterpret_cast<unsigned char *>(addr);
    } else {
        coherdma_sync_rdma_write(dev, list.data(), list.size());
    }
}

job contiguous(const coherdma_device *dev, const memory &bytes, std::size_t line,
               std::size_t size) {
    return {dev, line, {{bytes.begin(), static_cast<std::uint32_t>(size), 0}}};
}

job scattered(const coherdma_device *dev, const memory &bytes, std::size_t line,
              std::size_t count) {
    constexpr std::size_t OVER = std::size_t{2} << 20;
    std::vector<std::size_t> places(OVER / line);
    std::iota(places.begin(), places.end(), 0);
    std::shuffle(places.begin(), places.end(), std::minstd_rand(1));
    job work{dev, line, {}};
    for (std::size_t place = 0; place < count; ++place)
        work.list.push_back(
            {bytes.begin() + places[place] * line, static_cast<std::uint32_t>(line), 0});
    return work;
}

std::vector<contestant> readers(const job &work) {
    std::vector<contestant> all{ours(work)};
    for (const char *name : {"clwb", "clflushopt"})
        if (const auto *raw = find_raw_loop(name))
            all.push_back(bare(work, std::string("bare ") + name, raw->writeback));
    all.push_back(flush_each(work));
    all.push_back(persist_each(work));
    return all;
}

std::vector<contestant> writers(const job &work) {
    std::vector<contestant> all{{"coherdma", [&work] {
                                     coherdma_sync_rdma_write(work.dev, work.list.data(),
                                                              work.list.size());
                                 }}};
    if (const auto *raw = find_raw_loop("clflushopt"))
        all.push_back(bare(work, "bare clflushopt", raw->writeback_invalidate));
    return all;
}

std::vector<contestant> batchers(const job &work) {
    std::vector<contestant> all{ours(work)};
    if (const auto *raw = find_raw_loop("clwb"))
        all.push_back(bare(work, "bare clwb", raw->writeback));
    all.push_back(flush_each(work));
    all.push_back(persist_each(work));
    all.push_back({"a call each", [&work] {
                       for (const ibv_sge &each : work.list)
                           coherdma_sync_rdma_read(work.dev, &each, 1);
                   }});
    return all;
}

} // namespace sync_bench

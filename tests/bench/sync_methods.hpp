// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Ways to write back, or drop, the lines of some ranges: ours, raw loops, libpmem's.
#pragma once

#include "bench/measured_memory.hpp"

#include <coherdma/coherdma.h>
#include <functional>
#include <infiniband/verbs.h>
#include <memory>
#include <string>
#include <vector>

namespace sync_bench {

using tools::bench::measured_memory;

struct sync_method {
    std::string name;
    std::function<void()> run; ///< issues the work; wait_for_cache_instructions() comes after it
};

using device = std::unique_ptr<coherdma_device, decltype(&coherdma_close_device)>;

/// A device that does not exist; nullptr if this CPU cannot.
device assume_coherency(coherdma_coherency coherency);

/// One job: ranges, the same for all methods.
struct job {
    const coherdma_device *dev = nullptr;
    std::size_t line_size = 0;
    std::vector<ibv_sge> ranges;

    /// Every line of the ranges is dirty, or in no cache.
    void prepare_lines(const std::string &state) const;
};

job make_contiguous_job(const coherdma_device *dev, const measured_memory &buffer, std::size_t line,
                        std::size_t size);
/// Lines here and there, the same ones on every run.
job make_scattered_job(const coherdma_device *dev, const measured_memory &buffer, std::size_t line,
                       std::size_t count);

/// Each refers to the job, which must live as long. The first is ours.
std::vector<sync_method> make_read_methods(const job &work);
std::vector<sync_method> make_write_methods(const job &work);
/// For many ranges: one call, then ways with a call for each.
std::vector<sync_method> make_batch_methods(const job &work);

} // namespace sync_bench

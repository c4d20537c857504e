// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Ways to write back, or drop, the lines of some ranges: ours, raw loops, libpmem's.
#pragma once

#include "bench/measured_memory.hpp"

#include <coherdma/coherdma.h>
#include <functional>
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

/// A device without hardware, on which the sync calls do what this coherency needs; nullptr if this
/// CPU has no cache instructions for it.
device assume_coherency(coherdma_coherency coherency);

/// Exits with a message if the sync call has failed.
void check_sync(int error);

/// One job: ranges, the same for all methods.
struct job {
    const coherdma_device *dev = nullptr;
    std::size_t line_size = 0;
    std::vector<coherdma_range> ranges;

    /// state "dirty": writes to every line of the ranges; "uncached": invalidates them.
    void prepare_lines(const std::string &state) const;
};

job make_contiguous_job(const coherdma_device *dev, const measured_memory &buffer, std::size_t line,
                        std::size_t size);
/// Lines here and there, the same ones on every run.
job make_scattered_job(const coherdma_device *dev, const measured_memory &buffer, std::size_t line,
                       std::size_t count);

/// Each refers to the job, which must live as long. The first is coherdma's call.
/// Before an RDMA Read, a method writes the lines back; after an RDMA Write, it also invalidates
/// them.
std::vector<sync_method> make_read_methods(const job &work);
std::vector<sync_method> make_write_methods(const job &work);
/// For many ranges, before an RDMA Read: one call of coherdma for all, then ways with a call for
/// each.
std::vector<sync_method> make_batch_methods(const job &work);

} // namespace sync_bench

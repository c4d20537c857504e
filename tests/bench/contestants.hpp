// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Ways to write back, or drop, the lines of some ranges: ours, bare loops, libpmem's.
#pragma once

#include "bench/memory.hpp"

#include <coherdma/coherdma.h>
#include <functional>
#include <infiniband/verbs.h>
#include <memory>
#include <string>
#include <vector>

namespace sync_bench {

using tools::bench::memory;

struct contestant {
    std::string name;
    std::function<void()> run; ///< issues the work; complete() comes after it
};

using device = std::unique_ptr<coherdma_device, decltype(&coherdma_close)>;

/// A device that does not exist; nullptr if this CPU cannot.
device assume(coherdma_verdict verdict);

/// One job: ranges, the same for all contestants.
struct job {
    const coherdma_device *dev = nullptr;
    std::size_t line = 0;
    std::vector<ibv_sge> list;

    /// Every line of the ranges is dirty, or in no cache.
    void make(const std::string &state) const;
};

job contiguous(const coherdma_device *dev, const memory &bytes, std::size_t line, std::size_t size);
/// Lines here and there, the same ones on every run.
job scattered(const coherdma_device *dev, const memory &bytes, std::size_t line, std::size_t count);

/// Each refers to the job, which must live as long. The first is ours.
std::vector<contestant> readers(const job &work);
std::vector<contestant> writers(const job &work);
/// For many ranges: one call, then ways with a call for each.
std::vector<contestant> batchers(const job &work);

} // namespace sync_bench

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The cache of this CPU, for memory that a device reads or writes without seeing that cache.
//
// What the CPU wrote is in memory, where such a device reads, once its lines are written back. What
// the device wrote is seen once the CPU's own copies of the lines are gone; they are gone after a
// write-back that also drops them. No user program may drop a line unwritten: a page fresh from the
// kernel may still have its former owner's data below.
//
// A path is one choice of instructions for that. Each CPU has its file here with its paths, best
// first; nothing outside this folder knows an instruction.
#pragma once

#include "lines.hpp"

#include <span>

namespace coherdma::cache {

/// The instructions only issue the work; the fences wait for it. So a caller with many ranges,
/// whatever their origin, pays for one wait:
///
///     before_clean, clean..., after_clean      before an incoming RDMA Read
///     before_flush, flush..., after_flush      before, and after, an incoming RDMA Write
///
/// after_clean: what this thread then tells anyone (a doorbell, a lock, a message) comes after the
/// write-back. before_flush: what it saw before (a completion) comes before the lines are dropped.
/// after_flush: what it then reads is what the device wrote.
/// All may be called from any thread at any time. The memory must be mapped and readable.
struct path {
    const char *name; ///< for people and COHERDMA_CACHE
    void (*before_clean)() noexcept;
    void (*clean)(const range *ranges, std::size_t count, std::size_t line) noexcept;
    void (*after_clean)() noexcept;
    void (*before_flush)() noexcept;
    void (*flush)(const range *ranges, std::size_t count, std::size_t line) noexcept;
    void (*after_flush)() noexcept;
    bool (*claimed)() noexcept; ///< whether the CPU says that it has the instructions
};

/// The paths of this kind of CPU, best first; of those that this one claims, the first that ran is
/// used. None: user programs cannot do it here.
std::span<const path> paths() noexcept;

/// For a device that sees the cache: orders memory accesses as the fences do, and touches no line.
const path &ordering() noexcept;

/// Bytes of a line as the CPU says, or 0 if it says nonsense.
std::size_t line_size() noexcept;

/// Whether the CPU claims the path and its instructions run, tried on a line of our own.
bool works(const path &candidate) noexcept;

/// The path to use: the first that works, or the one that COHERDMA_CACHE names. nullptr if there
/// is none; then *why says it in words, as it does of a name that is wrong.
const path *choose(const char *wanted, const char **why) noexcept;

} // namespace coherdma::cache

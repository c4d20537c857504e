// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Maintenance of this CPU's data cache, for devices that access memory without snooping it.
//
// A write-back makes the CPU's stores visible to such a device. After the device has written, the
// CPU's copies of the lines must be invalidated. User programs can only write back and invalidate:
// an invalidation without write-back could reveal another process's data in a new page.
//
// A cache_ops is one set of instructions. Each CPU has a file here with its sets, best first; no
// code outside this folder uses these instructions.
#pragma once

#include "lines.hpp"

#include <span>

namespace coherdma::cache {

/// The instructions start the work and the fences wait for it, so one pair of fences serves any
/// number of ranges:
///
///     before an incoming RDMA Read, and before a post that has the device read local memory:
///         fence_before_writeback, writeback..., fence_after_writeback
///     before and after an incoming RDMA Write, and local memory that the device writes:
///         fence_before_invalidate, writeback_invalidate..., fence_after_invalidate
///
/// fence_before_writeback: stores of this thread to the lines and its earlier loads, such as of a
/// flag that another thread has set after its stores, are ordered before later operations of both
/// kinds. It does not wait for earlier ones, if the CPU has such a fence. fence_after_writeback: a
/// later store of this thread, such as a doorbell, a lock or a message, is ordered after the
/// write-back. fence_before_invalidate: an earlier load, such as of a completion, is ordered before
/// the invalidation. fence_after_invalidate: later loads return what the device wrote. As an
/// invalidation writes back, too, its fences also order what those of the write-back order.
/// Thread-safe. The memory must be mapped and readable.
struct cache_ops {
    const char *name; ///< in COHERDMA_CACHE and messages
    void (*fence_before_writeback)() noexcept;
    void (*writeback)(const range *ranges, std::size_t count, std::size_t line_size) noexcept;
    void (*fence_after_writeback)() noexcept;
    void (*fence_before_invalidate)() noexcept;
    void (*writeback_invalidate)(const range *ranges, std::size_t count,
                                 std::size_t line_size) noexcept;
    void (*fence_after_invalidate)() noexcept;
    bool (*is_reported)() noexcept; ///< whether the CPU reports the instructions
};

/// The sets of this architecture, best first. Empty: user programs cannot maintain the cache.
std::span<const cache_ops> arch_ops() noexcept;

/// For a device that snoops the cache: the fences order memory accesses, no line is touched.
const cache_ops &ordering_ops() noexcept;

/// The line size in bytes that the CPU reports, or 0 if it is unknown or invalid.
std::size_t line_size() noexcept;

/// The most memory in bytes that a CPU overwrites when it writes back one modified line, if that is
/// more than a line; else 0.
std::size_t writeback_granule() noexcept;

/// Whether the CPU reports the instructions and they run on a line of this function's stack.
bool is_usable(const cache_ops &ops) noexcept;

/// The set of that name, or the first usable one if name is NULL or "". On failure returns nullptr
/// and sets *problem to the reason.
const cache_ops *choose_ops(const char *name, const char **problem) noexcept;

} // namespace coherdma::cache

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Tests whether a device and the CPU see the same memory.
#pragma once

#include "cache/cache.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace coherdma::probe {

/// Makes the device copy the source to the sink.
class copier {
  public:
    /// Returns when the device has reported completion: 0 or an errno.
    virtual int copy() = 0;

  protected:
    ~copier() = default;
};

/// The word at this index of a buffer that is filled with a pattern, which is a number. Differs for
/// each pattern and index; never 0.
std::uint64_t word_value(std::uint64_t pattern, std::size_t index) noexcept;

/// Stores the pattern, before the device reads the buffer.
void fill(std::span<std::uint64_t> buffer, std::uint64_t pattern) noexcept;

struct probe_counts {
    std::uint32_t rounds = 0;       ///< completed
    std::uint64_t lines = 0;        ///< checked in each direction
    std::uint64_t device_stale = 0; ///< lines that the device read stale
    std::uint64_t cpu_stale = 0;    ///< lines that the CPU read stale
};

/// source and sink have the same size and consist of whole pages. Adds to counts. Returns 0, the
/// error of copy(), or EIO if the device copied data that was never in the source.
int probe_coherency(copier &device, std::span<std::uint64_t> source, std::span<std::uint64_t> sink,
                    const cache::cache_ops &ops, std::size_t line_size, std::uint32_t rounds,
                    probe_counts &counts);

} // namespace coherdma::probe

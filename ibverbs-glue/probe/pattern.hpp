// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// How to catch a device and a CPU at not seeing the same memory, whatever it is that moves the
// bytes: that is left to the caller.
#pragma once

#include "cache/cache.hpp"

#include <cstdint>
#include <span>

namespace coherdma::probe {

/// Has the device copy source to sink, as much as both hold, and returns once it says that it is
/// done: 0 or an error.
class mover {
  public:
    virtual int move() = 0;

  protected:
    ~mover() = default;
};

struct count {
    std::uint32_t rounds = 0;       ///< that were completed
    std::uint64_t lines = 0;        ///< looked at, in each direction
    std::uint64_t device_stale = 0; ///< of which the device saw what was there before
    std::uint64_t cpu_stale = 0;    ///< of which the CPU did
};

/// source and sink are of one size, whole pages each. EIO if the device brought bytes that were
/// never in the source, so that nothing can be told.
int look(mover &device, std::span<std::uint64_t> source, std::span<std::uint64_t> sink,
         const cache::path &way, std::size_t line, std::uint32_t rounds, count &into);

} // namespace coherdma::probe

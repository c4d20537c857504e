// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The parts of the program's memory that other processes, or other addresses of this one, can map,
// too: the shared mappings in /proc/self/maps, of files and of anonymous memory.
#pragma once

#include "addr_range.hpp"

#include <compare>
#include <vector>

namespace coherdma::emulation {

/// Identifies shared memory in all processes, as /proc/PID/maps does.
struct shm_id {
    std::uint64_t device = 0, inode = 0;

    auto operator<=>(const shm_id &) const = default;
};

struct shared_mapping {
    addr_range range;
    shm_id id;
    std::uint64_t offset = 0; ///< of the first byte, in the file
};

/// The shared mappings in the range, clipped to it, in address order.
std::vector<shared_mapping> find_shared_mappings(addr_range range);

} // namespace coherdma::emulation

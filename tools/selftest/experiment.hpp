// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The experiments: a device moves data from a source to a sink, and one of the two buffers is
// synced in part, or not at all. Lines of the sink that then do not have the new data were stale.
// The other buffer is always synced completely, so that only the examined one can be stale.
#pragma once

#include "probe/pattern.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace tools::selftest {

/// Which access of the device to this machine's memory is examined.
enum class data_path { PEER_READ, PEER_WRITE, OWN_WRITE, OWN_READ };
constexpr std::size_t NUM_PATHS = 4;

/// Whether the device writes the examined memory; else it reads it.
constexpr bool does_device_write(data_path path) noexcept {
    return path == data_path::PEER_WRITE || path == data_path::OWN_READ;
}

/// What is done with the examined memory before and after the transfer.
enum class sync_variant {
    NONE,
    FENCES,      ///< the fences of a sync, but no cache instruction
    BEFORE_ONLY, ///< a sync before the transfer; only if the device writes
    AFTER_ONLY,  ///< a sync after it; only if the device writes
    NO_FENCES,   ///< the cache instructions of a sync, but no fence
    FULL,
};
inline constexpr std::array ALL_VARIANTS = {sync_variant::NONE,        sync_variant::FENCES,
                                            sync_variant::BEFORE_ONLY, sync_variant::AFTER_ONLY,
                                            sync_variant::NO_FENCES,   sync_variant::FULL};

constexpr bool has_variant(data_path path, sync_variant variant) noexcept {
    return does_device_write(path) ||
           (variant != sync_variant::BEFORE_ONLY && variant != sync_variant::AFTER_ONLY);
}

/// What a sync consists of.
enum class sync_part { FENCES, CACHE_INSTRUCTIONS, ALL };

enum class sync_time { BEFORE_TRANSFER, AFTER_TRANSFER };

/// The syncs; a fake in the unit test.
class memory_sync {
  public:
    virtual ~memory_sync() = default;
    /// Why this part of a sync is not possible; "": it is.
    virtual std::string problem(sync_part part) const = 0;
    virtual void sync(data_path path, sync_time time, sync_part part,
                      std::span<std::uint64_t> memory) = 0;
    /// Leaves no line of the memory in the cache, and all data in memory. Does nothing if ALL is
    /// not possible.
    virtual void writeback_invalidate(std::span<std::uint64_t> memory) = 0;
};

struct experiment {
    data_path path;
    sync_variant variant;
    std::string problem = {};    ///< why it was not possible; "": it was
    std::uint32_t rounds = 0;    ///< completed
    std::uint64_t num_lines = 0; ///< checked
    std::uint64_t num_stale = 0; ///< of these, without the new data
    std::uint64_t num_other = 0; ///< of these, with data that is neither the old nor the new
};

struct experiment_plan {
    /// Moves the source to the sink, by data_path; nullptr: the path cannot be examined.
    std::array<std::function<int()>, NUM_PATHS> transfers;
    std::span<std::uint64_t> source, sink; ///< of the same size
    std::size_t line_size;
    std::uint32_t rounds;
    /// Called before each experiment's round: 0, or an errno, which ends the experiments.
    std::function<int(const experiment &)> check_interruption;
};

struct experiment_results {
    std::vector<experiment> experiments;
    int error = 0; ///< of a transfer, after which no other was made, or of an interruption
};

experiment_results run_experiments(const experiment_plan &plan, memory_sync &syncs);

} // namespace tools::selftest

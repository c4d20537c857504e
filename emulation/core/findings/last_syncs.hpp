// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The last sync of each byte of memory, however long ago: the history of events forgets.
#pragma once

#include "event_history.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace coherdma::emulation {

/// Not thread-safe. add() costs the logarithm of the number of ranges, on average.
class last_syncs {
  public:
    static constexpr std::size_t CAPACITY = 16384; ///< ranges; the oldest are forgotten

    struct sync {
        event_kind kind = event_kind::SYNC_WRITEBACK;
        std::uint64_t number = 0; ///< of its event; increases
        stack_trace stack;
    };

    /// Later than all others.
    void add(addr_range, const sync &);
    /// The latest that has a byte in the range; nullptr: none is known. Valid until the next add().
    [[nodiscard]] const sync *find(addr_range) const;

  private:
    struct synced_range {
        std::uintptr_t end = 0;
        sync last;
    };
    using range_map = std::map<std::uintptr_t, synced_range>;

    [[nodiscard]] range_map::const_iterator first_touching(addr_range) const;
    void insert(addr_range, const sync &);
    void erase(range_map::const_iterator);

    range_map ranges_; ///< by their begin; they do not overlap
    /// The number of its sync and the begin of each range: the oldest first.
    std::set<std::pair<std::uint64_t, std::uintptr_t>> by_age_;
};

} // namespace coherdma::emulation

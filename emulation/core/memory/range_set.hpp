// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "addr_range.hpp"

#include <algorithm>
#include <iterator>
#include <map>

namespace coherdma::emulation {

/// A set of addresses, as ranges that neither overlap nor touch. Not thread-safe.
class range_set {
  public:
    void add(addr_range added) {
        if (added.empty())
            return;
        auto it = first_that_ends_at_or_after(added.begin);
        while (it != ends_.end() && it->first <= added.end) { // they become one range
            added.begin = std::min(added.begin, it->first);
            added.end = std::max(added.end, it->second);
            it = ends_.erase(it);
        }
        ends_.emplace_hint(it, added.begin, added.end);
    }

    void remove(addr_range removed) {
        if (removed.empty())
            return;
        auto it = first_that_ends_at_or_after(removed.begin);
        while (it != ends_.end() && it->first < removed.end) {
            const addr_range former = {it->first, it->second};
            it = ends_.erase(it);
            if (former.begin < removed.begin)
                ends_.emplace_hint(it, former.begin, removed.begin);
            if (former.end > removed.end)
                it = ends_.emplace_hint(it, removed.end, former.end);
        }
    }

    [[nodiscard]] bool overlaps(addr_range range) const noexcept {
        const auto it = ends_.lower_bound(range.end);
        return !range.empty() && it != ends_.begin() && std::prev(it)->second > range.begin;
    }
    template <class function>
    void for_each(function func) const {
        for (const auto &[begin, end] : ends_)
            func(addr_range{begin, end});
    }
    [[nodiscard]] bool empty() const noexcept { return ends_.empty(); }

  private:
    using range_map = std::map<std::uintptr_t, std::uintptr_t>;

    range_map::iterator first_that_ends_at_or_after(std::uintptr_t addr) {
        const auto it = ends_.upper_bound(addr);
        return it != ends_.begin() && std::prev(it)->second >= addr ? std::prev(it) : it;
    }

    range_map ends_; ///< by begin
};

} // namespace coherdma::emulation

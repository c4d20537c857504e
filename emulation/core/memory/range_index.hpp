// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "addr_range.hpp"

#include <array>
#include <bit>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

namespace coherdma::emulation {

/// Ranges with numbers. Ranges may overlap or be equal; a range has a number once. Finds those that
/// have a byte in a range without a look at the others. Not thread-safe.
class range_index {
  public:
    void add(addr_range range, std::uint64_t number) {
        if (!range.empty())
            by_size_[size_class(range)][{range.begin, range.end}].insert(number);
    }

    void remove(addr_range range, std::uint64_t number) noexcept {
        if (range.empty())
            return;
        range_map &ranges = by_size_[size_class(range)];
        const auto it = ranges.find({range.begin, range.end});
        if (it != ranges.end() && it->second.erase(number) != 0 && it->second.empty())
            ranges.erase(it);
    }

    /// Calls func(range, number) for those that have a byte in the range, until it returns true.
    /// Returns whether it did.
    template <class function>
    bool find_if(addr_range range, function func) const {
        for (std::size_t size = 0; size < by_size_.size() && !range.empty(); ++size)
            for (auto it = first_that_may_reach(size, range.begin);
                 it != by_size_[size].end() && it->first.first < range.end; ++it)
                if (it->first.second > range.begin)
                    for (const std::uint64_t number : it->second)
                        if (func(addr_range{it->first.first, it->first.second}, number))
                            return true;
        return false;
    }

    /// Of the ranges, clipped to what is at or behind the address: the first one; empty if there is
    /// none.
    [[nodiscard]] addr_range find_first(std::uintptr_t addr) const noexcept {
        addr_range first;
        for (std::size_t size = 0; size < by_size_.size(); ++size)
            for (auto it = first_that_may_reach(size, addr); it != by_size_[size].end(); ++it) {
                if (it->first.second <= addr)
                    continue;
                const addr_range rest = {it->first.first > addr ? it->first.first : addr,
                                         it->first.second};
                if (first.empty() || rest.begin < first.begin)
                    first = rest;
                break;
            }
        return first;
    }

  private:
    using range_map = std::map<std::pair<std::uintptr_t, std::uintptr_t>, std::set<std::uint64_t>>;

    /// Ranges of class n have at most 2^n bytes, and more than half of that.
    static std::size_t size_class(addr_range range) noexcept {
        return static_cast<std::size_t>(std::bit_width(range.size() - 1));
    }
    /// The first range of the class that may have a byte at or behind the address.
    [[nodiscard]] range_map::const_iterator
    first_that_may_reach(std::size_t size, std::uintptr_t addr) const noexcept {
        const range_map &ranges = by_size_[size];
        if (ranges.empty())
            return ranges.end();
        const std::uintptr_t max_size = size < 64 ? std::uintptr_t{1} << size : ~std::uintptr_t{0};
        return ranges.lower_bound({addr > max_size ? addr - max_size : 0, 0});
    }

    std::array<range_map, 65> by_size_; ///< classes of ranges of similar size
};

} // namespace coherdma::emulation

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// How many times each address is in use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

namespace coherdma::check {

/// Ranges may overlap. Throws std::bad_alloc, with nothing changed.
class range_counts {
  public:
    /// Calls func(begin, end) for each part that was not in use before.
    template <class function>
    void add(std::uintptr_t begin, std::uintptr_t end, function func) {
        change(begin, end,
               [&](std::uintptr_t part_begin, std::uintptr_t part_end, std::size_t &count) {
                   if (count++ == 0)
                       func(part_begin, part_end);
               });
    }
    /// Ends a use. Calls func(begin, end) for each part that is not in use any more. Parts that
    /// were forgotten are skipped.
    template <class function>
    void remove(std::uintptr_t begin, std::uintptr_t end, function func) {
        change(begin, end,
               [&](std::uintptr_t part_begin, std::uintptr_t part_end, std::size_t &count) {
                   if (count != 0 && --count == 0)
                       func(part_begin, part_end);
               });
    }
    /// Ends all uses of the range. Calls func(begin, end) for each part that was in use.
    template <class function>
    void forget(std::uintptr_t begin, std::uintptr_t end, function func) {
        if (!overlaps(begin, end))
            return;
        change(begin, end,
               [&](std::uintptr_t part_begin, std::uintptr_t part_end, std::size_t &count) {
                   if (count != 0)
                       func(part_begin, part_end);
                   count = 0;
               });
    }
    /// Whether an address of the range is in use.
    [[nodiscard]] bool overlaps(std::uintptr_t begin, std::uintptr_t end) const noexcept {
        auto it = counts_.upper_bound(begin);
        if (it != counts_.begin() && begin < end && std::prev(it)->second != 0)
            return true;
        for (; it != counts_.end() && it->first < end; ++it)
            if (it->second != 0)
                return true;
        return false;
    }
    /// Parts that differ from the next one.
    [[nodiscard]] std::size_t num_parts() const noexcept { return counts_.size(); }

  private:
    using count_map = std::map<std::uintptr_t, std::size_t>;

    /// The part that begins there, which may be made.
    count_map::iterator part_at(std::uintptr_t begin) {
        const auto next = counts_.lower_bound(begin);
        if (next != counts_.end() && next->first == begin)
            return next;
        const std::size_t count = next == counts_.begin() ? 0 : std::prev(next)->second;
        return counts_.emplace_hint(next, begin, count);
    }
    /// Parts that have the same count become one.
    void merge(std::uintptr_t begin, std::uintptr_t end) noexcept {
        auto it = counts_.find(begin);
        while (it != counts_.end() && it->first <= end) {
            const std::size_t before = it == counts_.begin() ? 0 : std::prev(it)->second;
            it = it->second == before ? counts_.erase(it) : std::next(it);
        }
    }
    template <class function>
    void change(std::uintptr_t begin, std::uintptr_t end, function change_part) {
        if (begin >= end)
            return;
        part_at(end);
        for (auto it = part_at(begin); it->first < end; ++it)
            change_part(it->first, std::next(it)->first, it->second);
        merge(begin, end);
    }

    count_map counts_; ///< by the first address of each part: until the next one's
};

} // namespace coherdma::check

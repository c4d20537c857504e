// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "range_index.hpp"

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace coherdma::emulation {

/// The last records that were added; a record has a member `range`. A record may be pending: it is
/// visited in turn with the others until that is done. Not thread-safe.
template <class record>
class recent_ranges {
  public:
    static constexpr std::size_t CAPACITY = 1024;

    /// Replaces the last record of the same range, and returns that. The oldest is forgotten if
    /// there are too many.
    std::optional<record> add(record added, bool is_pending) {
        const addr_range range = added.range;
        if (range.empty())
            return std::nullopt;
        key former;
        index_.find_if({range.begin, range.begin + 1}, [&](addr_range other, std::uint64_t number) {
            if (other == range)
                former = std::max(former, {number, range.begin});
            return false;
        });
        std::optional<record> replaced;
        if (former != key{}) {
            replaced = std::move(records_.at(former));
            replaced->range = range;
            erase(former);
        }
        while (records_.size() >= CAPACITY) // remove() may have added more than one
            erase(records_.begin()->first);
        insert({++last_number_, range.begin}, std::move(added), is_pending);
        return replaced;
    }

    /// The last record that has a byte in the range; nullptr: there is none.
    [[nodiscard]] const record *find_last(addr_range range) const {
        key last;
        index_.find_if(range, [&](addr_range match, std::uint64_t number) {
            last = std::max(last, {number, match.begin});
            return false;
        });
        return last != key{} ? &records_.at(last) : nullptr;
    }
    [[nodiscard]] record *find_last(addr_range range) {
        return const_cast<record *>(std::as_const(*this).find_last(range));
    }

    /// Calls func(record) for those that have a byte in the range.
    template <class function>
    void for_each(addr_range range, function func) const {
        index_.find_if(range, [&](addr_range match, std::uint64_t number) {
            func(records_.at({number, match.begin}));
            return false;
        });
    }
    template <class function>
    void for_each(function func) {
        for (auto &[record_key, each] : records_)
            func(each);
    }

    /// Calls func(record) until it returns false.
    template <class function>
    void for_each_latest_first(function func) {
        for (auto it = records_.rbegin(); it != records_.rend() && func(it->second); ++it) {
        }
    }

    /// Calls func(record), which may change all but its range, and removes the record if it returns
    /// true.
    template <class function>
    void remove_if(function func) {
        for (auto it = records_.begin(); it != records_.end();) {
            const auto each = it++;
            if (func(each->second))
                erase(each->first);
        }
    }

    /// Removes the range from all records, which may leave a part before and one behind.
    void remove(addr_range range) {
        std::vector<key> matches;
        index_.find_if(range, [&](addr_range other, std::uint64_t number) {
            matches.push_back({number, other.begin});
            return false;
        });
        for (const key &record_key : matches) {
            const bool is_pending = pending_.count(record_key) != 0;
            const record former = records_.at(record_key);
            erase(record_key);
            for (const addr_range rest : {addr_range{former.range.begin, range.begin},
                                          addr_range{range.end, former.range.end}})
                if (!rest.empty()) {
                    record part = former;
                    part.range = rest;
                    insert({record_key.number, rest.begin}, std::move(part), is_pending);
                }
        }
    }

    /// Calls func(part of the range) for pending records in turn, for max_bytes bytes in total;
    /// each part counts as MIN_BYTES at least. It returns whether that part is done. A record of
    /// which all parts were done in one turn is not pending any more.
    template <class function>
    void visit_pending(std::size_t max_bytes, function func) {
        std::size_t num_left = pending_.size();
        for (std::size_t visited = 0; num_left != 0 && visited < max_bytes; --num_left) {
            auto it = pending_.lower_bound(next_pending_);
            if (it == pending_.end())
                it = pending_.begin();
            const addr_range range = records_.at(it->first).range;
            progress &state = it->second;
            const addr_range part = {
                state.begin, state.begin + std::min(range.end - state.begin, max_bytes - visited)};
            visited += std::max(part.size(), MIN_BYTES);
            state.is_done = func(part) && state.is_done;
            state.begin = part.end;
            next_pending_ = it->first; // it goes on there, unless this was the last part
            if (part.end != range.end)
                continue;
            ++next_pending_.begin;
            if (state.is_done)
                pending_.erase(it);
            else
                state = {range.begin};
        }
    }
    static constexpr std::size_t MIN_BYTES = 4096;

    [[nodiscard]] bool has_pending() const noexcept { return !pending_.empty(); }
    [[nodiscard]] std::size_t size() const noexcept { return records_.size(); }

  private:
    struct key { ///< parts of one record have its number
        std::uint64_t number = 0;
        std::uintptr_t begin = 0;
        auto operator<=>(const key &) const = default;
    };
    struct progress {
        std::uintptr_t begin = 0; ///< of the next part
        bool is_done = true;      ///< all parts so far
    };

    void insert(key record_key, record added, bool is_pending) {
        const addr_range range = added.range;
        records_.emplace(record_key, std::move(added));
        index_.add(range, record_key.number);
        if (is_pending)
            pending_[record_key] = {range.begin};
    }
    void erase(key record_key) {
        const auto it = records_.find(record_key);
        index_.remove(it->second.range, record_key.number);
        records_.erase(it);
        pending_.erase(record_key);
    }

    std::map<key, record> records_; ///< the oldest first
    range_index index_;             ///< the numbers of the records
    std::map<key, progress> pending_;
    key next_pending_; ///< the next turn is that of this one, or of the next one after it
    std::uint64_t last_number_ = 0;
};

} // namespace coherdma::emulation

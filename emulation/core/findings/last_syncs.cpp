// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "last_syncs.hpp"

#include <algorithm>
#include <iterator>

namespace coherdma::emulation {

/// The first range that ends behind the begin of `range`.
last_syncs::range_map::const_iterator last_syncs::first_touching(addr_range range) const {
    const auto next = ranges_.upper_bound(range.begin);
    if (next != ranges_.begin() && std::prev(next)->second.end > range.begin)
        return std::prev(next);
    return next;
}

void last_syncs::insert(addr_range range, const sync &last) {
    if (range.empty())
        return;
    ranges_[range.begin] = {range.end, last};
    by_age_.emplace(last.number, range.begin);
}

void last_syncs::erase(range_map::const_iterator range) {
    by_age_.erase({range->second.last.number, range->first});
    ranges_.erase(range);
}

/// Replaces what is known of these bytes. Of the first and the last range that it touches, a part
/// may remain.
void last_syncs::add(addr_range added, const sync &last) {
    if (added.empty())
        return;
    for (auto it = first_touching(added); it != ranges_.end() && it->first < added.end;
         it = first_touching(added)) {
        const addr_range replaced = {it->first, it->second.end};
        const sync earlier = it->second.last;
        erase(it);
        insert({replaced.begin, std::min(replaced.end, added.begin)}, earlier);
        insert({std::max(replaced.begin, added.end), replaced.end}, earlier);
    }
    insert(added, last);
    while (ranges_.size() > CAPACITY)
        erase(ranges_.find(by_age_.begin()->second));
}

const last_syncs::sync *last_syncs::find(addr_range range) const {
    const sync *latest = nullptr;
    for (auto it = first_touching(range); it != ranges_.end() && it->first < range.end; ++it)
        if (latest == nullptr || it->second.last.number > latest->number)
            latest = &it->second.last;
    return latest;
}

} // namespace coherdma::emulation

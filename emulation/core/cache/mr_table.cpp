// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "mr_table.hpp"

#include <utility>

namespace coherdma::emulation {

std::uint32_t mr_table::add(memory_region mr) {
    const addr_range range = mr.range;
    const bool is_remote = mr.is_remote();
    mr.number = ++last_number_;
    mrs_.push_back(std::move(mr));
    positions_[last_number_] = mrs_.size() - 1;
    by_range_.add(range, last_number_);
    if (is_remote)
        remote_.add(range, last_number_);
    return last_number_;
}

void mr_table::remove(std::uint32_t number) {
    const auto it = positions_.find(number);
    if (it == positions_.end())
        return;
    const std::size_t position = it->second;
    by_range_.remove(mrs_[position].range, number);
    remote_.remove(mrs_[position].range, number);
    positions_.erase(it);
    if (position + 1 != mrs_.size()) {
        mrs_[position] = std::move(mrs_.back());
        positions_[mrs_[position].number] = position;
    }
    mrs_.pop_back();
}

void mr_table::set_keys(std::uint32_t number, std::uint32_t lkey, std::uint32_t rkey) {
    mr_of(number).lkey = lkey;
    mr_of(number).rkey = rkey;
}

void mr_table::set_remote_access(std::uint32_t number, bool can_read, bool can_write) {
    memory_region &mr = mr_of(number);
    mr.remote_read = can_read;
    mr.remote_write = can_write;
    if (mr.is_remote())
        remote_.add(mr.range, number);
    else
        remote_.remove(mr.range, number);
}

const memory_region *mr_table::find(std::uint32_t number) const {
    const auto it = positions_.find(number);
    return it != positions_.end() ? &mrs_[it->second] : nullptr;
}

/// The MR that contains these lines; or else one that has a byte in them, or in their pages:
/// at deregistration the lines of all pages of an MR are discarded, also those outside the MR.
const memory_region *mr_table::find_by_lines(addr_range lines, std::size_t page_size) const {
    std::uint64_t match = 0;
    const auto find_in = [&](addr_range range) {
        return by_range_.find_if(range, [&](addr_range mr, std::uint64_t number) {
            match = number;
            return mr.begin <= lines.begin && lines.end <= mr.end;
        });
    };
    if (!find_in(lines) && match == 0)
        find_in(round_out(lines, page_size));
    return find(static_cast<std::uint32_t>(match));
}

bool mr_table::has_other(std::uint32_t number, addr_range range) const {
    return by_range_.find_if(range,
                             [=](addr_range, std::uint64_t match) { return match != number; });
}

} // namespace coherdma::emulation

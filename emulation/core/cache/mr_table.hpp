// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "core/findings/finding_log.hpp"
#include "core/memory/range_index.hpp"

#include <cstdint>
#include <unordered_map>
#include <vector>

namespace coherdma::emulation {

/// The MRs of this process, by number and by address. Not thread-safe.
class mr_table {
  public:
    /// Gives it the next number, and returns that.
    std::uint32_t add(memory_region mr);
    void remove(std::uint32_t number);
    void set_keys(std::uint32_t number, std::uint32_t lkey, std::uint32_t rkey);
    void set_remote_access(std::uint32_t number, bool can_read, bool can_write);

    /// nullptr: there is none with this number.
    [[nodiscard]] const memory_region *find(std::uint32_t number) const;
    /// The MR that contains these lines; or else one that has a byte in them, or in their pages;
    /// nullptr: none.
    [[nodiscard]] const memory_region *find_by_lines(addr_range lines, std::size_t page_size) const;
    /// Whether another MR has a byte in the range.
    [[nodiscard]] bool has_other(std::uint32_t number, addr_range range) const;
    /// Of the memory that peers can access: the first part at or behind the address; empty if there
    /// is none.
    [[nodiscard]] addr_range find_remote_memory(std::uintptr_t addr) const {
        return remote_.find_first(addr);
    }

    [[nodiscard]] std::size_t size() const noexcept { return mrs_.size(); }
    /// In any order: index is less than size().
    [[nodiscard]] const memory_region &at_index(std::size_t index) const { return mrs_[index]; }

  private:
    [[nodiscard]] memory_region &mr_of(std::uint32_t number) { return mrs_[positions_.at(number)]; }

    std::vector<memory_region> mrs_;
    std::unordered_map<std::uint32_t, std::size_t> positions_; ///< by number
    range_index by_range_, remote_;
    std::uint32_t last_number_ = 0;
};

} // namespace coherdma::emulation

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A range of the program's addresses.
#pragma once

#include <cstddef>
#include <cstdint>

namespace coherdma::emulation {

struct addr_range {
    std::uintptr_t begin = 0, end = 0;

    bool operator==(const addr_range &) const = default;
    [[nodiscard]] std::size_t size() const noexcept { return end - begin; }
    [[nodiscard]] bool empty() const noexcept { return begin >= end; }
};
[[nodiscard]] constexpr addr_range intersection(addr_range first, addr_range second) noexcept {
    return {first.begin > second.begin ? first.begin : second.begin,
            first.end < second.end ? first.end : second.end};
}
/// Extends the range to whole units; unit is a power of two.
[[nodiscard]] constexpr addr_range round_out(addr_range range, std::size_t unit) noexcept {
    return {range.begin & ~(unit - 1), (range.end + unit - 1) & ~(unit - 1)};
}

} // namespace coherdma::emulation

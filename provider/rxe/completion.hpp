// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What both ways to poll have in common.
#pragma once

#include "objects.hpp"

#include <array>
#include <cstring>

namespace coherdma::provider::rxe {

/// The status of a completion that nobody is to see; not the kernel's.
inline constexpr std::uint32_t forgotten = ~std::uint32_t{0};

/// The kernel's flags are not those of programs.
constexpr unsigned flags_of(unsigned kernel) noexcept {
    return ((kernel & kernel_says_grh) != 0 ? unsigned{IBV_WC_GRH} : 0U) |
           ((kernel & kernel_says_imm) != 0 ? unsigned{IBV_WC_WITH_IMM} : 0U) |
           ((kernel & kernel_says_inv) != 0 ? unsigned{IBV_WC_WITH_INV} : 0U);
}
inline constexpr std::array<unsigned, 8> translated_flags = {flags_of(0), flags_of(1), flags_of(2),
                                                             flags_of(3), flags_of(4), flags_of(5),
                                                             flags_of(6), flags_of(7)};

/// Takes up to so many completions. publish() is left to do. Any of them may have failed or be
/// forgotten.
int take_with_care(queue &from, ibv_wc *into, int most) noexcept;

/// The same, in few instructions if all have succeeded.
inline int take(queue &from, ibv_wc *into, int most) noexcept {
    ring &all = from.completions;
    // In registers: the compiler has to take memory for changed by each completion.
    const auto *const slots = static_cast<const unsigned char *>(all.slot(0));
    const std::uint32_t mask = all.mask, shift = all.log2_slot;
    std::uint32_t own = all.own;
    const std::uint32_t ready = (all.produced() - own) & mask;
    const int count = most < static_cast<int>(ready) ? most : static_cast<int>(ready);
    ibv_wc *each = into;
    for (int left = count; left > 0; --left, ++each) {
        const auto &slot = *reinterpret_cast<const completion_slot *>(
            slots + (static_cast<std::size_t>(own) << shift));
        if (slot.status != IBV_WC_SUCCESS) [[unlikely]]
            return take_with_care(from, into, most);
        own = (own + 1) & mask;
        std::memcpy(each, &slot, sizeof(*each));
        each->wc_flags = translated_flags[slot.wc_flags % translated_flags.size()];
    }
    all.own = own;
    return count;
}

} // namespace coherdma::provider::rxe

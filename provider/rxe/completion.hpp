// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What both ways to poll have in common.
#pragma once

#include "objects.hpp"

#include <array>
#include <cstring>

namespace coherdma::provider::rxe {

/// In a completion that nobody is to see.
inline constexpr std::uint8_t forgotten = 1;

/// The kernel's flags are not those of programs.
constexpr unsigned flags_of(unsigned kernel) noexcept {
    return ((kernel & kernel_says_grh) != 0 ? unsigned{IBV_WC_GRH} : 0U) |
           ((kernel & kernel_says_imm) != 0 ? unsigned{IBV_WC_WITH_IMM} : 0U) |
           ((kernel & kernel_says_inv) != 0 ? unsigned{IBV_WC_WITH_INV} : 0U);
}

/// Takes the next completion; false: there is none. publish() is left to do.
inline bool take(queue &from, ibv_wc &into) noexcept {
    ring &all = from.completions;
    while (auto *const slot = static_cast<completion_slot *>(all.occupied())) {
        all.emptied();
        if (slot->reserved == forgotten) [[unlikely]] {
            slot->reserved = 0;
            continue;
        }
        std::memcpy(&into, slot, sizeof(into));
        into.wc_flags = flags_of(slot->wc_flags);
        if (into.status != IBV_WC_SUCCESS) [[unlikely]]
            found_broken(of<context>(from.verbs.cq.context), into.qp_num);
        return true;
    }
    return false;
}

} // namespace coherdma::provider::rxe

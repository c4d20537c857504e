// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What both ways to poll have in common.
#pragma once

#include "objects.hpp"

#include <array>
#include <cstdint>
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

/// Takes up to so many completions. give_back() is left to do.
int take(queue &from, ibv_wc *into, int most) noexcept;

} // namespace coherdma::provider::rxe

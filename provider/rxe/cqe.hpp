// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// CQE conversion for ibv_poll_cq and the start_poll API.
#pragma once

#include "objects.hpp"

#include <array>
#include <cstdint>
#include <cstring>

namespace coherdma::provider::rxe {

/// The status of a CQE that cq_clean() discarded; the kernel has no such status.
inline constexpr std::uint32_t CQE_DISCARDED = ~std::uint32_t{0};

constexpr unsigned to_wc_flags(unsigned ib_wc_flags) noexcept {
    return ((ib_wc_flags & IB_WC_GRH) != 0 ? unsigned{IBV_WC_GRH} : 0U) |
           ((ib_wc_flags & IB_WC_WITH_IMM) != 0 ? unsigned{IBV_WC_WITH_IMM} : 0U) |
           ((ib_wc_flags & IB_WC_WITH_INVALIDATE) != 0 ? unsigned{IBV_WC_WITH_INV} : 0U);
}
/// to_wc_flags() as a table.
inline constexpr std::array<unsigned, 8> WC_FLAGS = {to_wc_flags(0), to_wc_flags(1), to_wc_flags(2),
                                                     to_wc_flags(3), to_wc_flags(4), to_wc_flags(5),
                                                     to_wc_flags(6), to_wc_flags(7)};

/// Reads up to max_wc completions and returns their number. The caller holds the lock and calls
/// publish_consumer().
int poll_cqes(rxe_cq &cq, ibv_wc *wc, int max_wc) noexcept;

} // namespace coherdma::provider::rxe

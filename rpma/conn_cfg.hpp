// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdint>
#include <librpma.h>

struct rpma_conn_cfg {
    std::atomic<int> timeout_ms = RPMA_DEFAULT_TIMEOUT_MS;
    std::atomic<std::uint32_t> cq_size = 10;
    std::atomic<std::uint32_t> rcq_size = 0; ///< 0: receives complete in the main CQ
    std::atomic<std::uint32_t> sq_size = 10;
    std::atomic<std::uint32_t> rq_size = 10;
    std::atomic<bool> shares_channel = false; ///< one completion channel for both CQs
    std::atomic<rpma_srq *> srq = nullptr;
};

namespace coherdma::rpma {

/// The number of entries as ibv_create_cq() takes it.
inline int to_cqe(std::uint32_t size) noexcept {
    return static_cast<int>(std::min<std::uint32_t>(size, INT_MAX));
}

} // namespace coherdma::rpma

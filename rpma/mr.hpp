// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "handle.hpp"
#include "sync.hpp"

#include <cstdint>

struct rpma_mr_local {
    coherdma::rpma::unique_mr mr;
    int usage = 0;                 ///< RPMA_MR_USAGE_*
    coherdma::rpma::sync_ref sync; ///< nullptr: the device is coherent
    rpma_mr_local *next = nullptr; ///< in the list of sync
};

struct rpma_mr_remote {
    std::uint64_t addr;
    std::uint64_t size;
    std::uint32_t rkey;
    int usage; ///< RPMA_MR_USAGE_*
};

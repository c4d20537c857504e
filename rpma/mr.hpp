// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "handle.hpp"

#include <cstdint>

struct rpma_mr_local {
    coherdma::rpma::unique_mr mr;
    rpma_peer *peer;
    int usage; ///< RPMA_MR_USAGE_*
};

struct rpma_mr_remote {
    std::uint64_t addr;
    std::uint64_t size;
    std::uint32_t rkey;
    int usage; ///< RPMA_MR_USAGE_*
};

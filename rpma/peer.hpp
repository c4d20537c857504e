// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "device.hpp"
#include "handle.hpp"
#include "sync.hpp"

#include <cstddef>

struct rpma_peer {
    using unique_pd = coherdma::rpma::unique_handle<ibv_pd, ibv_dealloc_pd>;

    unique_pd pd;
    coherdma::rpma::device_caps caps;
    coherdma::rpma::sync_ref sync; ///< nullptr: the device is coherent

    /// 0, or an RPMA_E_* value. usage: RPMA_MR_USAGE_*.
    int register_memory(void *addr, std::size_t length, int usage,
                        coherdma::rpma::unique_mr &mr) noexcept;
};

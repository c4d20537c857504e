// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What librpma uses of a device if it is there.
#pragma once

#include <infiniband/verbs.h>

namespace coherdma::rpma {

struct device_caps {
    bool has_odp;          ///< on-demand paging for RDMA Reads and Writes of RC QPs
    bool has_atomic_write; ///< natively
    bool has_flush;        ///< natively, to visibility and to persistence
};

inline bool is_iwarp(const ibv_context &context) noexcept {
    return context.device->transport_type == IBV_TRANSPORT_IWARP;
}

/// 0, or an RPMA_E_* value.
int query_device_caps(ibv_context &context, device_caps &caps) noexcept;

} // namespace coherdma::rpma

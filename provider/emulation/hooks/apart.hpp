// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Registering other pages under the program's address.
#pragma once

#include "core/cache.hpp"

#include <cstdint>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_verbs.h>

namespace coherdma::emulation {

struct keys {
    std::uint32_t handle = 0, lkey = 0, rkey = 0;
};

/// Registers the pieces of files as if they were the program's memory there, for peers at iova.
/// 0, or an errno.
int register_apart(const ibv_pd &domain, const std::vector<cache::piece> &pieces, span where,
                   std::uint64_t iova, int access, rdma_driver_id driver, keys &into);

} // namespace coherdma::emulation

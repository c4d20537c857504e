// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Registration of other pages under the program's addresses.
#pragma once

#include "core/cache/cache_model.hpp"

#include <cstdint>
#include <infiniband/verbs.h>
#include <rdma/ib_user_ioctl_verbs.h>

namespace coherdma::emulation {

struct mr_handle_and_keys {
    std::uint32_t handle = 0, lkey = 0, rkey = 0;
};

/// Registers the mappings' files as if the program had mapped them in the range. Returns 0 or an
/// errno.
int register_alias(const ibv_pd &pd, const std::vector<cache_model::page_mapping> &mappings,
                   addr_range range, std::uint64_t iova, int access, rdma_driver_id driver_id,
                   mr_handle_and_keys &registered);

} // namespace coherdma::emulation

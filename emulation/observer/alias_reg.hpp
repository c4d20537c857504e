// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// MRs of siw by the kernel's interface: registration of other pages under the program's addresses.
#pragma once

#include "core/cache/cache_model.hpp"

#include <cstdint>
#include <infiniband/verbs.h>

namespace coherdma::emulation {

struct mr_handle_and_keys {
    std::uint32_t handle = 0, lkey = 0, rkey = 0;
};

/// Registers the mappings' files as if the program had mapped them in the range. Returns 0 or an
/// errno.
int register_alias(const ibv_pd &pd, const std::vector<cache_model::page_mapping> &mappings,
                   addr_range range, std::uint64_t iova, int access,
                   mr_handle_and_keys &registered);

/// Registers the program's memory, in the kernel only. Returns 0 or an errno.
int register_range(const ibv_pd &pd, addr_range range, std::uint64_t iova, int access,
                   mr_handle_and_keys &registered) noexcept;

/// Deregisters in the kernel only. Returns 0 or an errno.
int destroy_siw_mr(const ibv_context &, std::uint32_t handle) noexcept;

} // namespace coherdma::emulation

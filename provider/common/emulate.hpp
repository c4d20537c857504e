// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "cache/emulated_cache.hpp"
#include "objects.hpp"

#include <rdma/ib_user_ioctl_verbs.h>

namespace coherdma::provider {

/// Emulates a device that is not coherent with the CPU's cache, if the user requests that: the
/// emulation module replaces some of the operations. Returns 0, or an errno if emulation is
/// requested and the module cannot be loaded.
int attach_cache_emulation(ibv_context *context, rdma_driver_id driver_id,
                           abi::verbs_context_ops &ops) noexcept;

/// nullptr: the device is not emulated.
const cache::emulated_cache *find_emulated_cache(const ibv_context *context) noexcept;

} // namespace coherdma::provider

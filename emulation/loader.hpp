// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Loads the emulation module, if the user requests emulation. Compiled into the plugin.
#pragma once

#include "abi/context_ops.hpp"
#include "cache/emulated_cache.hpp"

#include <rdma/ib_user_ioctl_verbs.h>

namespace coherdma::emulation {

/// Emulates a device that is not coherent with the CPU's cache, if the user requests that: the
/// module replaces some of the operations. Returns 0, or an errno if emulation is requested and the
/// module cannot be loaded.
int attach(ibv_context *context, rdma_driver_id driver_id, abi::verbs_context_ops &ops) noexcept;

/// nullptr: the device is not emulated.
const cache::emulated_cache *find_cache(const ibv_context *context) noexcept;

} // namespace coherdma::emulation

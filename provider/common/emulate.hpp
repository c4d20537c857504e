// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "objects.hpp"

#include <rdma/ib_user_ioctl_verbs.h>

namespace coherdma::provider {

/// Emulates a device that is not coherent with the CPU's cache, if the user requests that: the
/// emulation module replaces some of the operations. Returns 0, or an errno if emulation is
/// requested and the module cannot be loaded.
int attach_emulation(ibv_context *context, rdma_driver_id driver_id,
                     abi::verbs_context_ops &ops) noexcept;

} // namespace coherdma::provider

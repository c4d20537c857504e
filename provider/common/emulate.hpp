// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "objects.hpp"

#include <rdma/ib_user_ioctl_verbs.h>

namespace coherdma::provider {

/// Where a user wants it, has the device played as one that does not see the CPU's cache: the
/// emulation's module then changes the operations. 0; or an errno, if it is wanted and cannot be:
/// nobody should take a device for emulated that is not.
int emulate(ibv_context *context, rdma_driver_id driver, abi::operations &able) noexcept;

} // namespace coherdma::provider

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the plugin hands to the module. Both are of one build: the version is that of this struct.
#pragma once

#include "abi/operations.hpp"

#include <cstdint>
#include <rdma/ib_user_ioctl_verbs.h>

namespace coherdma::emulation {

struct handover {
    std::uint32_t size; ///< of this struct, as a version
    rdma_driver_id driver;
    abi::operations *able;              ///< the driver's; functions of the module are put in
    int (*deregister)(abi::verbs_mr *); ///< by the kernel alone: the object stays
    void (*set_operations)(ibv_context *, const abi::operations &);
};

/// extern "C", by this name. 0, whether the device is played from now on or is not to be; or an
/// errno.
using begin_function = int(ibv_context *, const handover *);
inline constexpr const char *begin_name = "coherdma_emulation_begin";

} // namespace coherdma::emulation

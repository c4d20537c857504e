// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the plugin passes to the emulation module. Both are of one build: size serves as a version.
#pragma once

#include "abi/context_ops.hpp"
#include "cache/emulated_cache.hpp"

#include <cstdint>
#include <rdma/ib_user_ioctl_verbs.h>

namespace coherdma::emulation {

struct module_args {
    std::uint32_t size; ///< of this struct
    rdma_driver_id driver_id;
    abi::verbs_context_ops *ops; ///< the driver's; the module replaces some
    /// Deregisters in the kernel only; the object is not freed.
    int (*kernel_dereg_mr)(abi::verbs_mr *);
    void (*set_ops)(ibv_context *, const abi::verbs_context_ops &);
    const cache::emulated_cache **cache; ///< set if the device is emulated from now on
};

/// extern "C", exported as begin_name. Returns 0, whether or not the device is emulated from now
/// on; or an errno.
using begin_function = int(ibv_context *, const module_args *);
inline constexpr const char *begin_name = "coherdma_emulation_begin";

} // namespace coherdma::emulation

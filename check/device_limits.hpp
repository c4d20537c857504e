// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Published limits of devices that a program may be meant for, which it is not run on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace coherdma::check {

struct device_limit {
    std::size_t max = SIZE_MAX;
    const char *source = ""; ///< "rdma-core, providers/efa/verbs.c"
};

/// What is not allowed has the max 0.
struct device_limits {
    const char *name; ///< of the driver
    device_limit connected_qps, srqs;
    device_limit unsignaled_sends; ///< of a QP without sq_sig_all
    device_limit send_sges, inline_bytes;
    device_limit rd_atomics; ///< max_rd_atomic and max_dest_rd_atomic of a QP
};

/// nullptr: none of this name.
const device_limits *find_limits(std::string_view name) noexcept;

} // namespace coherdma::check

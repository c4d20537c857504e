// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The ibv_wr_* API.
#pragma once

#include "device_shim.hpp"

#include <cstdint>

namespace coherdma::emulation {

/// Used by one thread at a time, from wr_start to wr_complete or wr_abort.
struct qp_ex_state {
    ibv_qp_ex driver = {}; ///< the driver's functions
    bool is_sig_all = false;
    std::vector<std::uint64_t> batch; ///< numbers in pending_wr_table, since wr_start
    // of the WR that is being built:
    ibv_wr_opcode opcode = IBV_WR_SEND;
    std::uint64_t wr_id = 0;
    std::uint32_t rkey = 0;
    std::uint64_t remote_addr = 0;
};

} // namespace coherdma::emulation

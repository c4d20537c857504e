// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Posting by parts. Between the calls that begin and end a batch the pair is one thread's.
#pragma once

#include "played.hpp"

#include <cstdint>

namespace coherdma::emulation {

struct parts {
    ibv_qp_ex under = {}; ///< the driver's functions
    bool signals_all = false;
    std::vector<std::uint64_t> batch;   ///< numbers of its requests
    ibv_wr_opcode opcode = IBV_WR_SEND; ///< of the one that is being built
    std::uint64_t id = 0;
    std::uint32_t key = 0;
    std::uint64_t remote = 0;
};

} // namespace coherdma::emulation

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "cq.hpp"

struct rpma_srq {
    std::unique_ptr<rpma_cq> rcq; ///< of all its connections; nullptr: each has one of its own
    std::unique_ptr<coherdma::rpma::sync_queue> receives; ///< nullptr: the device is coherent
    coherdma::rpma::unique_handle<ibv_srq, ibv_destroy_srq> srq;
};

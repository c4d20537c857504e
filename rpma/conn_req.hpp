// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "conn.hpp"

namespace coherdma::rpma {

/// A request with its queues. id: bound to a device. 0, or an RPMA_E_* value.
int create_req(rpma_peer &peer, unique_id id, const rpma_conn_cfg *cfg, bool is_passive,
               std::unique_ptr<rpma_conn_req> &result) noexcept;

} // namespace coherdma::rpma

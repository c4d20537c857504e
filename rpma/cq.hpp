// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "handle.hpp"
#include "sync.hpp"

struct rpma_cq {
    coherdma::rpma::sync_ref sync;              ///< nullptr: the device is coherent
    coherdma::rpma::unique_channel own_channel; ///< nullptr: the connection's CQs share one
    ibv_comp_channel *channel = nullptr;
    coherdma::rpma::unique_handle<ibv_cq, ibv_destroy_cq> cq;

    /// Acknowledges an event of the CQ, and requests the next one. 0, or an RPMA_E_* value.
    int ack_event() noexcept {
        ibv_ack_cq_events(cq.get(), 1);
        return request_event();
    }
    int request_event() noexcept {
        const int error = ibv_req_notify_cq(cq.get(), 0);
        return error == 0 ? 0 : fail_request(error);
    }
    static int fail_request(int error) noexcept;
    /// Completes the requests of all CQEs. For a device that is not coherent.
    void drain() noexcept;
};

namespace coherdma::rpma {

/// Creates a CQ with at least cqe entries, armed. channel: of the connection, or nullptr. 0, or an
/// RPMA_E_* value.
int create_cq(rpma_peer &peer, int cqe, ibv_comp_channel *channel,
              std::unique_ptr<rpma_cq> &result) noexcept;
/// 0, or an RPMA_E_* value.
int create_channel(ibv_context &context, unique_channel &channel) noexcept;
/// Destroys the CQ, if any, and its channel. 0, or the RPMA_E_* value of the first failure.
int destroy_cq(std::unique_ptr<rpma_cq> &cq) noexcept;

} // namespace coherdma::rpma

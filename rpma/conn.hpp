// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A connection request and a connection. Both own the same verbs objects: a connection takes them
// over from its request.
#pragma once

#include "cq.hpp"
#include "scratch.hpp"

#include <atomic>
#include <coherdma/experimental.h>
#include <cstdint>
#include <memory>

namespace coherdma::rpma {

/// Private data that the peer has sent. Its address stays the same when a connection takes it over
/// from its request: the program may use what rpma_conn_req_get_private_data() returned.
struct private_data {
    std::unique_ptr<std::uint8_t[]> bytes; ///< nullptr: none
    std::uint8_t length = 0;

    /// 0, or RPMA_E_NOMEM.
    int store(const rdma_conn_param &param) noexcept;
    rpma_conn_private_data get() const noexcept { return {.ptr = bytes.get(), .len = length}; }
};

/// The verbs objects of a connection, in the order of their creation.
struct conn_objects {
    unique_event_channel event_channel; ///< nullptr: librdmacm's own, or the endpoint's
    unique_id id;                       ///< with a QP, unless it is nullptr
    unique_channel channel;             ///< that both CQs share, or nullptr
    std::unique_ptr<rpma_cq> cq;
    std::unique_ptr<rpma_cq> rcq; ///< nullptr: receives complete in cq, or in the SRQ's CQ
    std::unique_ptr<sync_queue> requests, receives; ///< nullptr: the device is coherent

    conn_objects() = default;
    ~conn_objects() {
        const errno_guard guard;
        destroy();
    }
    /// Takes over the other's objects; this one has none yet.
    conn_objects &operator=(conn_objects &&) = default;

    /// Creates CQs and a QP for the id. 0, or an RPMA_E_* value.
    int create_queues(rpma_peer &peer, const rpma_conn_cfg &cfg) noexcept;
    /// Destroys all objects. 0, or the RPMA_E_* value of the first failure.
    int destroy() noexcept;
};

} // namespace coherdma::rpma

struct rpma_conn_req {
    rpma_peer *peer = nullptr;
    bool is_passive = false;
    coherdma::rpma::conn_objects objects;
    coherdma::rpma::private_data data; ///< of a peer's request
};

struct rpma_conn {
    coherdma::rpma::flush_scratch scratch; ///< before the objects: the QP is destroyed first
    coherdma::rpma::conn_objects objects;
    coherdma::rpma::unique_handle<coherdma_qp, coherdma_close_qp> qp;
    coherdma::rpma::private_data data; ///< of the peer's request, or of its reply
    /// Whether the peer has declared that flushed data is persistent.
    std::atomic<bool> direct_write_to_pmem = false;
    std::atomic<bool> has_disconnected = false; ///< by rpma_conn_disconnect()
};

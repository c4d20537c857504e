// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The objects of an rxe device and the functions that several files use.
#pragma once

#include "common/doorbell.hpp"
#include "common/objects.hpp"
#include "common/qp_table.hpp"
#include "ring.hpp"

#include <cstdint>
#include <rdma/ib_user_ioctl_verbs.h>

namespace coherdma::provider::rxe {

struct rxe_cq;
struct rxe_qp;

struct rxe_context {
    ibv_context verbs;
    qp_table<rxe_qp, rxe_cq> qps;
};

struct rxe_ah {
    ibv_ah verbs;
    std::uint32_t ah_num;
};

struct rxe_cq {
    abi::verbs_cq verbs;
    cq_spinlock lock;
    cq_ring ring;
    ibv_wc cur_wc; ///< between start_poll and end_poll
};

struct rxe_srq {
    abi::verbs_srq verbs;
    spinlock lock;
    wq_ring ring;
    std::uint32_t max_sge;
};

struct rxe_qp {
    abi::verbs_qp verbs;
    qp_table_entry<rxe_qp> entry;
    spinlock sq_lock, rq_lock;
    doorbell sq_doorbell;
    wq_ring sq, rq; ///< rq is not mapped if the QP has an SRQ
    std::uint32_t max_send_sge, max_recv_sge, max_inline_data;
    std::uint32_t supported_opcodes; ///< bits of the ibv_wr_opcodes that the QP's type supports
    // Between wr_start and wr_complete:
    std::uint32_t wr_start_index; ///< sq.prod at wr_start
    rxe_send_wqe *cur_wqe;        ///< the WQE that wr_set_* changes, or nullptr
    int wr_err;                   ///< the first error of the batch, or 0
    bool in_error;                ///< the QP is in ERR, or a thread is moving it to ERR or RESET

    int ring_doorbell() noexcept;
};

inline rxe_context &to_rxe_context(ibv_context *context) noexcept {
    return container_of<rxe_context>(context);
}
inline rxe_ah &to_rxe_ah(ibv_ah *ibah) noexcept {
    return container_of<rxe_ah>(ibah);
}
inline rxe_cq &to_rxe_cq(ibv_cq *ibcq) noexcept {
    return container_of<rxe_cq>(ibcq);
}
inline rxe_cq &to_rxe_cq(ibv_cq_ex *ibcq) noexcept {
    return container_of<rxe_cq>(ibcq);
}
inline rxe_srq &to_rxe_srq(ibv_srq *ibsrq) noexcept {
    return container_of<rxe_srq>(ibsrq);
}
inline rxe_qp &to_rxe_qp(ibv_qp *ibqp) noexcept {
    return container_of<rxe_qp>(ibqp);
}
inline rxe_qp &to_rxe_qp(ibv_qp_ex *ibqp) noexcept {
    return container_of<rxe_qp>(ibqp);
}

verbs_context *alloc_context(ibv_device *device, int cmd_fd, void *) noexcept;
verbs_context *import_context(ibv_device *device, int cmd_fd) noexcept;

/// All operations of the driver.
abi::verbs_context_ops make_context_ops() noexcept;

void fill_ah_ops(abi::verbs_context_ops &ops) noexcept;
void fill_cq_ops(abi::verbs_context_ops &ops) noexcept;
void fill_mr_ops(abi::verbs_context_ops &ops) noexcept;
void fill_mw_ops(abi::verbs_context_ops &ops) noexcept;
void fill_post_ops(abi::verbs_context_ops &ops) noexcept;
void fill_qp_ops(abi::verbs_context_ops &ops) noexcept;
void fill_srq_ops(abi::verbs_context_ops &ops) noexcept;

/// Discards a QP's CQEs that have not been polled. The caller holds the CQ's lock.
void discard_cqes(rxe_cq &cq, const rxe_qp &qp) noexcept;

/// Sets the CQ's functions of the start_poll API.
void set_poll_ops(rxe_cq &cq) noexcept;

/// Sets the QP's functions of the ibv_wr_* API that are in send_ops.
void set_wr_ops(rxe_qp &qp, std::uint64_t send_ops) noexcept;

/// Returns bits of the ibv_wr_opcodes that a QP type supports.
std::uint32_t get_supported_opcodes(ibv_qp_type type) noexcept;

/// The send operations that a QP type supports on this device and with this libibverbs. Queries the
/// device only if send_ops has an atomic write or a flush.
std::uint64_t get_supported_send_ops(ibv_context *context, ibv_qp_type type,
                                     std::uint64_t send_ops) noexcept;

/// Writes a WQE for each receive WR of the list and publishes them. Returns 0 or an errno and sets
/// *bad_wr.
int post_recvs(wq_ring &ring, spinlock &lock, std::uint32_t max_sge, ibv_recv_wr *wr,
               ibv_recv_wr **bad_wr) noexcept;

/// Moves a QP to ERR. If it is there already, the kernel flushes the receives posted since.
int move_qp_to_err(rxe_qp &qp) noexcept;

/// Called after a failed completion: moves the QP with that number to ERR if it is an RC QP.
void move_qp_num_to_err(rxe_context &context, std::uint32_t qp_num) noexcept;

} // namespace coherdma::provider::rxe

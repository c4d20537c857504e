// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The ibv_wr_* API. wr_start takes the lock; wr_complete publishes the batch, or none of it after
// an error, releases the lock and rings the doorbell; wr_abort drops the batch and releases the
// lock.

#include "wqe.hpp"

#include <cerrno>

namespace coherdma::provider::rxe {
namespace {

/// Stores the first error of the batch; wr_complete returns it. The rest of the batch has no
/// effect.
void set_wr_err(rxe_qp &qp, int error) noexcept {
    if (qp.wr_err == 0)
        qp.wr_err = error;
    qp.cur_wqe = nullptr;
}

void wr_start(ibv_qp_ex *ibqp) noexcept {
    rxe_qp &qp = to_rxe_qp(ibqp);
    qp.sq_lock.lock();
    qp.sq.adopt_producer();
    qp.wr_start_index = qp.sq.prod;
    qp.cur_wqe = nullptr;
    qp.wr_err = ibqp->qp_base.state < IBV_QPS_RTS ? EINVAL : 0;
}

/// Drops the WQEs since wr_start, which the kernel has not seen.
void wr_abort(ibv_qp_ex *ibqp) noexcept {
    rxe_qp &qp = to_rxe_qp(ibqp);
    qp.sq.prod = qp.wr_start_index;
    qp.sq_lock.unlock();
}

/// Publishes the WQEs since wr_start and rings the doorbell, or drops them if one had an error.
int wr_complete(ibv_qp_ex *ibqp) noexcept {
    rxe_qp &qp = to_rxe_qp(ibqp);
    int error = qp.wr_err;
    if (error != 0) {
        wr_abort(ibqp);
    } else {
        const bool has_new_wqe = qp.sq.publish_new();
        qp.sq_lock.unlock();
        if (has_new_wqe)
            error = qp.ring_doorbell();
    }
    trace::post_send(ibqp->qp_base.qp_num, error);
    return error;
}

/// Begins a WQE, to which wr_set_* may add data. Returns nullptr if the batch has an error.
rxe_send_wqe *start_wqe(ibv_qp_ex *ibqp, std::uint32_t opcode,
                        std::uint32_t imm_data = 0) noexcept {
    rxe_qp &qp = to_rxe_qp(ibqp);
    if (qp.wr_err != 0) {
        qp.cur_wqe = nullptr;
        return nullptr;
    }
    if (qp.sq.is_full()) {
        set_wr_err(qp, ENOMEM);
        return nullptr;
    }
    auto &wqe = *static_cast<rxe_send_wqe *>(qp.sq.next_wqe());
    wqe = {};
    wqe.wr.wr_id = ibqp->wr_id;
    wqe.wr.opcode = opcode;
    wqe.wr.send_flags = ibqp->wr_flags & SEND_FLAGS & ~unsigned{IBV_SEND_INLINE};
    wqe.wr.ex.imm_data = imm_data;
    qp.sq.advance_producer();
    qp.cur_wqe = &wqe;
    return &wqe;
}

/// wqe: as start_wqe() returns it.
void set_rdma(rxe_send_wqe *wqe, std::uint32_t rkey, std::uint64_t remote_addr) noexcept {
    if (wqe == nullptr)
        return;
    wqe->wr.wr.rdma = {.remote_addr = remote_addr, .rkey = rkey, .reserved = 0};
    wqe->iova = remote_addr;
}

void wr_send(ibv_qp_ex *ibqp) noexcept {
    start_wqe(ibqp, IBV_WR_SEND);
}
void wr_send_imm(ibv_qp_ex *ibqp, __be32 imm_data) noexcept {
    start_wqe(ibqp, IBV_WR_SEND_WITH_IMM, imm_data);
}
void wr_send_inv(ibv_qp_ex *ibqp, std::uint32_t invalidate_rkey) noexcept {
    start_wqe(ibqp, IBV_WR_SEND_WITH_INV, invalidate_rkey);
}
void wr_local_inv(ibv_qp_ex *ibqp, std::uint32_t invalidate_rkey) noexcept {
    start_wqe(ibqp, IBV_WR_LOCAL_INV, invalidate_rkey);
}
void wr_rdma_write(ibv_qp_ex *ibqp, std::uint32_t rkey, std::uint64_t remote_addr) noexcept {
    set_rdma(start_wqe(ibqp, IBV_WR_RDMA_WRITE), rkey, remote_addr);
}
void wr_rdma_write_imm(ibv_qp_ex *ibqp, std::uint32_t rkey, std::uint64_t remote_addr,
                       __be32 imm_data) noexcept {
    set_rdma(start_wqe(ibqp, IBV_WR_RDMA_WRITE_WITH_IMM, imm_data), rkey, remote_addr);
}
void wr_rdma_read(ibv_qp_ex *ibqp, std::uint32_t rkey, std::uint64_t remote_addr) noexcept {
    set_rdma(start_wqe(ibqp, IBV_WR_RDMA_READ), rkey, remote_addr);
}

/// Begins an atomic. The batch has an error until wr_set_sge_list() sets the atomic's data, and for
/// ever if the address is unaligned: the kernel would send the atomic, and the QP would enter ERR.
void start_atomic(ibv_qp_ex *ibqp, std::uint32_t opcode, const rxe_atomic_wr &atomic) noexcept {
    rxe_qp &qp = to_rxe_qp(ibqp);
    rxe_send_wqe *const wqe = start_wqe(ibqp, opcode);
    if (wqe == nullptr)
        return;
    if (atomic.remote_addr % ATOMIC_SIZE != 0)
        return set_wr_err(qp, EINVAL);
    wqe->wr.wr.atomic = atomic;
    wqe->iova = atomic.remote_addr;
    qp.wr_err = EINVAL;
}
void wr_atomic_cmp_swp(ibv_qp_ex *ibqp, std::uint32_t rkey, std::uint64_t remote_addr,
                       std::uint64_t compare, std::uint64_t swap) noexcept {
    start_atomic(ibqp, IBV_WR_ATOMIC_CMP_AND_SWP, {remote_addr, compare, swap, rkey, 0});
}
void wr_atomic_fetch_add(ibv_qp_ex *ibqp, std::uint32_t rkey, std::uint64_t remote_addr,
                         std::uint64_t add) noexcept {
    start_atomic(ibqp, IBV_WR_ATOMIC_FETCH_AND_ADD, {remote_addr, add, 0, rkey, 0});
}

void wr_atomic_write(ibv_qp_ex *ibqp, std::uint32_t rkey, std::uint64_t remote_addr,
                     const void *data) noexcept {
    rxe_send_wqe *const wqe = start_wqe(ibqp, WR_ATOMIC_WRITE);
    if (wqe == nullptr)
        return;
    set_rdma(wqe, rkey, remote_addr);
    wqe->dma.length = wqe->dma.resid = ATOMIC_WRITE_SIZE;
    append_data(wqe_data(*wqe), data, ATOMIC_WRITE_SIZE);
    to_rxe_qp(ibqp).cur_wqe = nullptr; // wr_set_* must not set its data
}

void wr_flush(ibv_qp_ex *ibqp, std::uint32_t rkey, std::uint64_t remote_addr, std::size_t length,
              std::uint8_t type, std::uint8_t level) noexcept {
    if (length >= LENGTH_LIMIT)
        return set_wr_err(to_rxe_qp(ibqp), EINVAL);
    rxe_send_wqe *const wqe = start_wqe(ibqp, WR_FLUSH);
    if (wqe == nullptr)
        return;
    const auto length32 = static_cast<std::uint32_t>(length);
    wqe->wr.wr.flush = {remote_addr, length32, rkey, type, level, 0, 0};
    wqe->iova = remote_addr;
    wqe->dma.length = wqe->dma.resid = length32;
    to_rxe_qp(ibqp).cur_wqe = nullptr; // wr_set_* must not set data
}

void wr_bind_mw(ibv_qp_ex *ibqp, ibv_mw *mw, std::uint32_t rkey,
                const ibv_mw_bind_info *bind_info) noexcept {
    if (mw == nullptr || bind_info == nullptr)
        return set_wr_err(to_rxe_qp(ibqp), EINVAL);
    if (rxe_send_wqe *const wqe = start_wqe(ibqp, IBV_WR_BIND_MW))
        wqe->wr.wr.mw = make_mw_wr(*mw, rkey, *bind_info);
}

void wr_set_ud_addr(ibv_qp_ex *ibqp, ibv_ah *ibah, std::uint32_t remote_qpn,
                    std::uint32_t remote_qkey) noexcept {
    if (ibah == nullptr)
        return set_wr_err(to_rxe_qp(ibqp), EINVAL);
    if (rxe_send_wqe *const wqe = to_rxe_qp(ibqp).cur_wqe)
        wqe->wr.wr.ud = {.remote_qpn = remote_qpn,
                         .remote_qkey = remote_qkey,
                         .pkey_index = 0,
                         .reserved = 0,
                         .ah_num = to_rxe_ah(ibah).ah_num};
}

/// Sets the data of the current WR.
void wr_set_sge_list(ibv_qp_ex *ibqp, std::size_t num_sge, const ibv_sge *sg_list) noexcept {
    rxe_qp &qp = to_rxe_qp(ibqp);
    rxe_send_wqe *const wqe = qp.cur_wqe;
    if (wqe == nullptr)
        return;
    if (num_sge > qp.max_send_sge)
        return set_wr_err(qp, EINVAL);
    const std::uint64_t length = total_length(sg_list, num_sge);
    if (length >= LENGTH_LIMIT)
        return set_wr_err(qp, EINVAL);
    if (qp.wr_err != 0) { // that of start_atomic()
        if (length < ATOMIC_SIZE)
            return set_wr_err(qp, EINVAL);
        qp.wr_err = 0;
    }
    append_data(wqe_data(*wqe), sg_list, num_sge * sizeof(ibv_sge));
    wqe->dma.num_sge = static_cast<std::uint32_t>(num_sge);
    wqe->dma.length = wqe->dma.resid = static_cast<std::uint32_t>(length);
}
void wr_set_sge(ibv_qp_ex *ibqp, std::uint32_t lkey, std::uint64_t addr,
                std::uint32_t length) noexcept {
    const ibv_sge sge = {addr, length, lkey};
    wr_set_sge_list(ibqp, 1, &sge);
}

void wr_set_inline_data_list(ibv_qp_ex *ibqp, std::size_t num_buf,
                             const ibv_data_buf *buf_list) noexcept {
    rxe_qp &qp = to_rxe_qp(ibqp);
    rxe_send_wqe *const wqe = qp.cur_wqe;
    if (wqe == nullptr)
        return;
    if ((INLINE_OPCODES >> (wqe->wr.opcode % 32) & 1) == 0) // the kernel may have changed it
        return set_wr_err(qp, EINVAL);
    std::size_t length = 0;
    unsigned char *end = wqe_data(*wqe);
    for (const ibv_data_buf *buf = buf_list; buf != buf_list + num_buf; ++buf) {
        if (buf->length > qp.max_inline_data - length)
            return set_wr_err(qp, EINVAL);
        length += buf->length;
        end = append_data(end, buf->addr, buf->length);
    }
    wqe->wr.send_flags |= IBV_SEND_INLINE;
    wqe->dma.length = wqe->dma.resid = static_cast<std::uint32_t>(length);
}
void wr_set_inline_data(ibv_qp_ex *ibqp, void *addr, std::size_t length) noexcept {
    const ibv_data_buf buf = {addr, length};
    wr_set_inline_data_list(ibqp, 1, &buf);
}

} // namespace

/// Sets the ibv_wr_* functions of a QP; those of requests only if send_ops has their bit.
void set_wr_ops(rxe_qp &qp, std::uint64_t send_ops) noexcept {
    ibv_qp_ex &ibqp = qp.verbs.qp_ex;
    const auto set_if_requested = [send_ops](auto &op, ibv_wr_opcode opcode, auto function) {
        op = (send_ops & bit(opcode)) != 0 ? function : nullptr;
    };
    set_if_requested(ibqp.wr_send, IBV_WR_SEND, wr_send);
    set_if_requested(ibqp.wr_send_imm, IBV_WR_SEND_WITH_IMM, wr_send_imm);
    set_if_requested(ibqp.wr_send_inv, IBV_WR_SEND_WITH_INV, wr_send_inv);
    set_if_requested(ibqp.wr_local_inv, IBV_WR_LOCAL_INV, wr_local_inv);
    set_if_requested(ibqp.wr_rdma_write, IBV_WR_RDMA_WRITE, wr_rdma_write);
    set_if_requested(ibqp.wr_rdma_write_imm, IBV_WR_RDMA_WRITE_WITH_IMM, wr_rdma_write_imm);
    set_if_requested(ibqp.wr_rdma_read, IBV_WR_RDMA_READ, wr_rdma_read);
    set_if_requested(ibqp.wr_atomic_cmp_swp, IBV_WR_ATOMIC_CMP_AND_SWP, wr_atomic_cmp_swp);
    set_if_requested(ibqp.wr_atomic_fetch_add, IBV_WR_ATOMIC_FETCH_AND_ADD, wr_atomic_fetch_add);
    set_if_requested(ibqp.wr_bind_mw, IBV_WR_BIND_MW, wr_bind_mw);
    if (ibqp.qp_base.qp_type == IBV_QPT_UD)
        ibqp.wr_set_ud_addr = wr_set_ud_addr;
    ibqp.wr_set_sge = wr_set_sge;
    ibqp.wr_set_sge_list = wr_set_sge_list;
    ibqp.wr_set_inline_data = wr_set_inline_data;
    ibqp.wr_set_inline_data_list = wr_set_inline_data_list;
    ibqp.wr_start = wr_start;
    ibqp.wr_complete = wr_complete;
    ibqp.wr_abort = wr_abort;
    abi::set_qp_ex_ops(qp.verbs,
                       {(send_ops & QP_EX_WITH_ATOMIC_WRITE) != 0 ? wr_atomic_write : nullptr,
                        (send_ops & QP_EX_WITH_FLUSH) != 0 ? wr_flush : nullptr});
}

} // namespace coherdma::provider::rxe

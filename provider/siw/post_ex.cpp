// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The ibv_wr_* API. wr_start takes the lock; wr_complete makes the batch VALID, or none of it after
// an error, releases the lock and rings the doorbell; wr_abort drops the batch and releases the
// lock.

#include "wqe.hpp"

#include <cerrno>

namespace coherdma::provider::siw {
namespace {

/// Stores the first error of the batch; wr_complete returns it. The rest of the batch has no
/// effect.
void set_wr_err(siw_qp &qp, int error) noexcept {
    if (qp.wr_err == 0)
        qp.wr_err = error;
    qp.cur_wqe = nullptr;
}

void wr_start(ibv_qp_ex *ibqp) noexcept {
    siw_qp &qp = to_siw_qp(ibqp);
    qp.sq_lock.lock();
    qp.wr_end_index = qp.sq.ring.prod;
    qp.cur_wqe = nullptr;
    qp.wr_err = 0;
}

void wr_abort(ibv_qp_ex *ibqp) noexcept {
    to_siw_qp(ibqp).sq_lock.unlock();
}

/// Makes the WQEs since wr_start VALID, with the flags that start_wqe() left in their opcodes, and
/// submits them. Releases sq_lock. Returns 0 or an errno.
int submit_batch(siw_qp &qp) noexcept {
    wq_ring &ring = qp.sq.ring;
    ring.set_last_written(qp.wr_end_index - 1);
    for (std::uint32_t index = ring.prod; index != qp.wr_end_index; ++index) {
        wqe_header &wqe = ring.wqe(index);
        const std::uint16_t flags = unpack_flags(wqe.opcode);
        wqe.opcode &= OPCODE_MASK;
        store_flags(wqe, flags | SIW_WQE_VALID);
    }
    return submit_and_unlock(qp, qp.wr_end_index);
}

/// Submits the WQEs since wr_start, or none of them after an error.
int wr_complete(ibv_qp_ex *ibqp) noexcept {
    siw_qp &qp = to_siw_qp(ibqp);
    int error = qp.wr_err;
    if (error != 0)
        qp.sq_lock.unlock();
    else
        error = submit_batch(qp);
    trace::post_send(ibqp->qp_base.qp_num, error);
    return error;
}

/// Begins a WQE, to which wr_set_* may add data. Until wr_complete its flags are packed into the
/// opcode, since a kernel that flushes treats a WQE with flags as posted. Returns nullptr if the
/// batch has an error.
siw_sqe *start_wqe(ibv_qp_ex *ibqp, std::uint8_t opcode) noexcept {
    siw_qp &qp = to_siw_qp(ibqp);
    if (qp.wr_err != 0)
        return nullptr;
    wqe_header *const wqe = qp.sq.ring.get_free_wqe(qp.wr_end_index);
    if (wqe == nullptr) {
        set_wr_err(qp, ENOMEM);
        return nullptr;
    }
    siw_sqe &sqe = to_sqe(*wqe);
    sqe.id = ibqp->wr_id;
    sqe.num_sge = 0;
    sqe.opcode = pack_flags(opcode, make_wqe_flags(qp, qp.wr_end_index, opcode, ibqp->wr_flags));
    sqe.sge[0] = {};
    qp.cur_wqe = &sqe;
    ++qp.wr_end_index;
    return &sqe;
}

void wr_send(ibv_qp_ex *ibqp) noexcept {
    start_wqe(ibqp, SIW_OP_SEND);
}
void wr_send_inv(ibv_qp_ex *ibqp, std::uint32_t invalidate_rkey) noexcept {
    if (siw_sqe *const sqe = start_wqe(ibqp, SIW_OP_SEND_REMOTE_INV))
        sqe->rkey = invalidate_rkey;
}
/// sqe: as start_wqe() returns it.
void set_remote(siw_sqe *sqe, std::uint32_t rkey, std::uint64_t remote_addr) noexcept {
    if (sqe == nullptr)
        return;
    sqe->rkey = rkey;
    sqe->raddr = remote_addr;
}
void wr_rdma_write(ibv_qp_ex *ibqp, std::uint32_t rkey, std::uint64_t remote_addr) noexcept {
    set_remote(start_wqe(ibqp, SIW_OP_WRITE), rkey, remote_addr);
}
void wr_rdma_read(ibv_qp_ex *ibqp, std::uint32_t rkey, std::uint64_t remote_addr) noexcept {
    siw_qp &qp = to_siw_qp(ibqp);
    if (!is_read_allowed(qp))
        return set_wr_err(qp, EINVAL);
    set_remote(start_wqe(ibqp, SIW_OP_READ), rkey, remote_addr);
}

void wr_set_sge_list(ibv_qp_ex *ibqp, std::size_t num_sge, const ibv_sge *sg_list) noexcept {
    siw_qp &qp = to_siw_qp(ibqp);
    siw_sqe *const sqe = qp.cur_wqe;
    if (sqe == nullptr)
        return;
    if (!set_sge_list(*sqe, qp, sqe->opcode & OPCODE_MASK, sg_list, num_sge))
        set_wr_err(qp, EINVAL);
}
void wr_set_sge(ibv_qp_ex *ibqp, std::uint32_t lkey, std::uint64_t addr,
                std::uint32_t length) noexcept {
    const ibv_sge sge = {addr, length, lkey};
    wr_set_sge_list(ibqp, 1, &sge);
}

void wr_set_inline_data_list(ibv_qp_ex *ibqp, std::size_t num_buf,
                             const ibv_data_buf *buf_list) noexcept {
    siw_qp &qp = to_siw_qp(ibqp);
    siw_sqe *const sqe = qp.cur_wqe;
    if (sqe == nullptr)
        return;
    const int opcode = sqe->opcode & OPCODE_MASK;
    if (opcode != SIW_OP_SEND && opcode != SIW_OP_WRITE)
        return set_wr_err(qp, EINVAL);
    std::size_t length = 0;
    unsigned char *end = inline_data(*sqe);
    for (const ibv_data_buf *buf = buf_list; buf != buf_list + num_buf; ++buf) {
        if (buf->length > qp.max_inline_data - length)
            return set_wr_err(qp, EINVAL);
        if (buf->length != 0)
            std::memcpy(end, buf->addr, buf->length);
        end += buf->length;
        length += buf->length;
    }
    sqe->opcode =
        pack_flags(sqe->opcode, set_inline_length(*sqe, static_cast<std::uint32_t>(length)));
}
void wr_set_inline_data(ibv_qp_ex *ibqp, void *addr, std::size_t length) noexcept {
    const ibv_data_buf buf = {addr, length};
    wr_set_inline_data_list(ibqp, 1, &buf);
}

} // namespace

/// Sets the ibv_wr_* functions of a QP; those of requests only if send_ops has their bit.
void set_wr_ops(siw_qp &qp, std::uint64_t send_ops) noexcept {
    ibv_qp_ex &ibqp = qp.verbs.qp_ex;
    const auto set_if_requested = [send_ops](auto &op, ibv_wr_opcode opcode, auto function) {
        op = (send_ops >> opcode & 1) != 0 ? function : nullptr;
    };
    set_if_requested(ibqp.wr_send, IBV_WR_SEND, wr_send);
    set_if_requested(ibqp.wr_send_inv, IBV_WR_SEND_WITH_INV, wr_send_inv);
    set_if_requested(ibqp.wr_rdma_write, IBV_WR_RDMA_WRITE, wr_rdma_write);
    set_if_requested(ibqp.wr_rdma_read, IBV_WR_RDMA_READ, wr_rdma_read);
    ibqp.wr_set_sge = wr_set_sge;
    ibqp.wr_set_sge_list = wr_set_sge_list;
    ibqp.wr_set_inline_data = wr_set_inline_data;
    ibqp.wr_set_inline_data_list = wr_set_inline_data_list;
    ibqp.wr_start = wr_start;
    ibqp.wr_complete = wr_complete;
    ibqp.wr_abort = wr_abort;
    abi::set_qp_ex_ops(qp.verbs, {nullptr, nullptr});
}

} // namespace coherdma::provider::siw

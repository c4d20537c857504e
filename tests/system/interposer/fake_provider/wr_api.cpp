// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The ibv_wr_* functions. wr_start locks; wr_complete, which posts all requests or none, and
// wr_abort unlock.

#include "objects.hpp"

#include <utility>

namespace fake {
namespace {

fake_qp &to_fake_qp(ibv_qp_ex *qp) noexcept {
    return fake::to_fake_qp(&qp->qp_base);
}

void wr_start(ibv_qp_ex *verbs) noexcept {
    lock.lock();
    fake_qp &qp = to_fake_qp(verbs);
    qp.batch.clear();
    qp.wr_err = 0;
}

void wr_abort(ibv_qp_ex *verbs) noexcept {
    to_fake_qp(verbs).batch.clear();
    lock.unlock();
}

/// UD addresses come after the function that begins the request, so all is checked here. What fits
/// was found by begin_wr().
int wr_complete(ibv_qp_ex *verbs) noexcept {
    fake_qp &qp = to_fake_qp(verbs);
    int error = qp.wr_err;
    for (std::size_t i = 0; i < qp.batch.size() && error == 0; ++i)
        error = check_send(qp, qp.batch[i].wr, i);
    if (error == 0) {
        for (const send_request &request : std::exchange(qp.batch, {}))
            qp.sends.add(request);
        execute_all();
    }
    wr_abort(verbs);
    return error;
}

ibv_send_wr &begin_wr(ibv_qp_ex *verbs, ibv_wr_opcode opcode) {
    fake_qp &qp = to_fake_qp(verbs);
    send_request begun = {};
    begun.wr.wr_id = verbs->wr_id;
    begun.wr.opcode = opcode;
    begun.wr.send_flags = verbs->wr_flags;
    begun.is_signaled = qp.is_sig_all || (verbs->wr_flags & IBV_SEND_SIGNALED) != 0;
    qp.batch.push_back(begun);
    return qp.batch.back().wr;
}

void wr_send(ibv_qp_ex *qp) noexcept {
    begin_wr(qp, IBV_WR_SEND);
}
void wr_send_imm(ibv_qp_ex *qp, __be32 imm_data) noexcept {
    begin_wr(qp, IBV_WR_SEND_WITH_IMM).imm_data = imm_data;
}
void wr_send_inv(ibv_qp_ex *qp, std::uint32_t rkey) noexcept {
    begin_wr(qp, IBV_WR_SEND_WITH_INV).invalidate_rkey = rkey;
}
void wr_local_inv(ibv_qp_ex *qp, std::uint32_t rkey) noexcept {
    begin_wr(qp, IBV_WR_LOCAL_INV).invalidate_rkey = rkey;
}

ibv_send_wr &begin_rdma(ibv_qp_ex *qp, ibv_wr_opcode opcode, std::uint32_t rkey,
                        std::uint64_t remote_addr) {
    ibv_send_wr &wr = begin_wr(qp, opcode);
    wr.wr.rdma.rkey = rkey;
    wr.wr.rdma.remote_addr = remote_addr;
    return wr;
}
void wr_rdma_write(ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t remote_addr) noexcept {
    begin_rdma(qp, IBV_WR_RDMA_WRITE, rkey, remote_addr);
}
void wr_rdma_write_imm(ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t remote_addr,
                       __be32 imm_data) noexcept {
    begin_rdma(qp, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr).imm_data = imm_data;
}
void wr_rdma_read(ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t remote_addr) noexcept {
    begin_rdma(qp, IBV_WR_RDMA_READ, rkey, remote_addr);
}

void begin_atomic(ibv_qp_ex *qp, ibv_wr_opcode opcode, std::uint32_t rkey,
                  std::uint64_t remote_addr, std::uint64_t compare_add, std::uint64_t swap) {
    begin_wr(qp, opcode).wr.atomic = {
        .remote_addr = remote_addr, .compare_add = compare_add, .swap = swap, .rkey = rkey};
}
void wr_atomic_cmp_swp(ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t remote_addr,
                       std::uint64_t compare, std::uint64_t swap) noexcept {
    begin_atomic(qp, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr, compare, swap);
}
void wr_atomic_fetch_add(ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t remote_addr,
                         std::uint64_t add) noexcept {
    begin_atomic(qp, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr, add, 0);
}

void wr_bind_mw(ibv_qp_ex *qp, ibv_mw *mw, std::uint32_t rkey,
                const ibv_mw_bind_info *bind_info) noexcept {
    begin_wr(qp, IBV_WR_BIND_MW).bind_mw = {.mw = mw, .rkey = rkey, .bind_info = *bind_info};
}

/// The request that the last function began. Setters without one, or with too many SGEs, make
/// wr_complete fail.
send_request *last_request(ibv_qp_ex *verbs, bool is_valid = true) noexcept {
    fake_qp &qp = to_fake_qp(verbs);
    if (is_valid && !qp.batch.empty())
        return &qp.batch.back();
    qp.wr_err = EINVAL;
    return nullptr;
}
void wr_set_sge_list(ibv_qp_ex *qp, std::size_t num_sge, const ibv_sge *sg_list) noexcept {
    send_request *const request = last_request(qp, num_sge <= MAX_SGE);
    if (request != nullptr && num_sge != 0)
        request->sge = sg_list[0];
}
void wr_set_sge(ibv_qp_ex *qp, std::uint32_t lkey, std::uint64_t addr,
                std::uint32_t length) noexcept {
    const ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};
    wr_set_sge_list(qp, 1, &sge);
}
void wr_set_inline_data(ibv_qp_ex *qp, void *, std::size_t length) noexcept {
    last_request(qp, length <= MAX_INLINE_DATA);
}
void wr_set_inline_data_list(ibv_qp_ex *qp, std::size_t num_buf, const ibv_data_buf *) noexcept {
    last_request(qp, num_buf == 0);
}
void wr_set_ud_addr(ibv_qp_ex *qp, ibv_ah *ah, std::uint32_t remote_qpn,
                    std::uint32_t remote_qkey) noexcept {
    if (send_request *const request = last_request(qp))
        request->wr.wr.ud = {.ah = ah, .remote_qpn = remote_qpn, .remote_qkey = remote_qkey};
}

} // namespace

/// It has the functions that the flags name and no others, as in mlx5.
void set_wr_functions(fake_qp &qp, std::uint64_t send_ops_flags) {
    ibv_qp_ex &verbs = qp.verbs.qp_ex;
    const auto set = [&](std::uint64_t flag, auto &member, auto *function) {
        if ((send_ops_flags & flag) != 0)
            member = function;
    };
    verbs.wr_start = wr_start;
    verbs.wr_complete = wr_complete;
    verbs.wr_abort = wr_abort;
    verbs.wr_set_sge = wr_set_sge;
    verbs.wr_set_sge_list = wr_set_sge_list;
    verbs.wr_set_inline_data = wr_set_inline_data;
    verbs.wr_set_inline_data_list = wr_set_inline_data_list;
    if (qp.verbs.qp.qp_type == IBV_QPT_UD)
        verbs.wr_set_ud_addr = wr_set_ud_addr;
    set(IBV_QP_EX_WITH_SEND, verbs.wr_send, wr_send);
    set(IBV_QP_EX_WITH_SEND_WITH_IMM, verbs.wr_send_imm, wr_send_imm);
    set(IBV_QP_EX_WITH_SEND_WITH_INV, verbs.wr_send_inv, wr_send_inv);
    set(IBV_QP_EX_WITH_LOCAL_INV, verbs.wr_local_inv, wr_local_inv);
    set(IBV_QP_EX_WITH_RDMA_WRITE, verbs.wr_rdma_write, wr_rdma_write);
    set(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, verbs.wr_rdma_write_imm, wr_rdma_write_imm);
    set(IBV_QP_EX_WITH_RDMA_READ, verbs.wr_rdma_read, wr_rdma_read);
    set(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, verbs.wr_atomic_cmp_swp, wr_atomic_cmp_swp);
    set(IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, verbs.wr_atomic_fetch_add, wr_atomic_fetch_add);
    set(IBV_QP_EX_WITH_BIND_MW, verbs.wr_bind_mw, wr_bind_mw);
    abi::set_qp_ex_ops(qp.verbs, {.wr_atomic_write = nullptr, .wr_flush = nullptr});
}

} // namespace fake

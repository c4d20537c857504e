// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Executes send requests, in order, in the thread that posts one or the receive that one waits for.

#include "objects.hpp"

#include <cstring>
#include <optional>

namespace fake {
namespace {

constexpr std::size_t GRH_SIZE = 40; // before the data of a UD message

ibv_wc_opcode completion_opcode(ibv_wr_opcode opcode) noexcept {
    switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
        return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return IBV_WC_FETCH_ADD;
    case IBV_WR_BIND_MW:
        return IBV_WC_BIND_MW;
    case IBV_WR_LOCAL_INV:
        return IBV_WC_LOCAL_INV;
    default:
        return IBV_WC_SEND;
    }
}

/// An unsignaled request completes only if it fails.
void complete_send(fake_qp &qp, const send_request &request, ibv_wc_status status) {
    if (status == IBV_WC_SUCCESS && !request.is_signaled)
        return;
    fake_cqe cqe;
    cqe.wc.wr_id = request.wr.wr_id;
    cqe.wc.status = status;
    cqe.wc.qp_num = qp.verbs.qp.qp_num;
    if (status == IBV_WC_SUCCESS)
        cqe.wc.opcode = completion_opcode(request.wr.opcode);
    cqe.queue_id = cqe.slot_queue_id = qp.sends.id();
    cqe.slot_number = request.number;
    add_cqe(qp.verbs.qp.send_cq, std::move(cqe));
}

receive_queue &receives_of(fake_qp &qp) noexcept {
    return qp.verbs.qp.srq != nullptr ? to_object<fake_srq>(qp.verbs.qp.srq).receives : qp.receives;
}

/// cqe: with what its status needs.
void complete_receive(fake_qp &qp, const receive_request &request, fake_cqe cqe) {
    cqe.wc.wr_id = request.wr_id;
    cqe.wc.qp_num = qp.verbs.qp.qp_num;
    cqe.queue_id = qp.receives.id();
    cqe.slot_queue_id = receives_of(qp).id();
    cqe.slot_number = request.number;
    add_cqe(qp.verbs.qp.recv_cq, std::move(cqe));
}

void fail(fake_qp &qp) {
    qp.state = IBV_QPS_ERR;
    flush(qp);
}

std::byte *local_data(const send_request &request, unsigned access) {
    return find_local(request.sge.lkey, request.sge.addr, request.sge.length, access);
}

bool is_write(ibv_wr_opcode opcode) noexcept {
    return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}
bool has_imm(ibv_wr_opcode opcode) noexcept {
    return opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/// The status of the send; no value: the receiver has no receive yet.
std::optional<ibv_wc_status> receive(fake_qp &qp, fake_qp &dest, const send_request &request,
                                     const std::byte *data) {
    receive_queue &receives = receives_of(dest);
    if (receives.pending.empty())
        return std::nullopt;
    const receive_request receive = receives.pending.front();
    receives.pending.pop_front();
    fake_cqe cqe;
    cqe.wc.opcode = is_write(request.wr.opcode) ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
    cqe.wc.byte_len = request.sge.length;
    cqe.wc.src_qp = qp.verbs.qp.qp_num;
    if (has_imm(request.wr.opcode)) {
        cqe.wc.wc_flags |= IBV_WC_WITH_IMM;
        cqe.wc.imm_data = request.wr.imm_data;
    }
    if (request.wr.opcode == IBV_WR_SEND_WITH_INV) {
        cqe.wc.wc_flags |= IBV_WC_WITH_INV;
        cqe.wc.invalidated_rkey = request.wr.invalidate_rkey;
        invalidate(request.wr.invalidate_rkey);
    }
    if (!is_write(request.wr.opcode)) {
        if (qp.verbs.qp.qp_type == IBV_QPT_UD) {
            cqe.wc.wc_flags |= IBV_WC_GRH;
            cqe.wc.byte_len += GRH_SIZE;
            cqe.data.resize(GRH_SIZE);
        }
        if (request.sge.length != 0)
            cqe.data.insert(cqe.data.end(), data, data + request.sge.length);
        cqe.dest =
            find_local(receive.sge.lkey, receive.sge.addr, cqe.data.size(), IBV_ACCESS_LOCAL_WRITE);
        const bool is_too_long = cqe.data.size() > receive.sge.length;
        if (!cqe.data.empty() && (is_too_long || cqe.dest == nullptr)) {
            fake_cqe failed;
            failed.wc.status = is_too_long ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_PROT_ERR;
            complete_receive(dest, receive, std::move(failed));
            dest.state = IBV_QPS_ERR; // it is flushed by execute()
            return is_too_long ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_OP_ERR;
        }
    }
    complete_receive(dest, receive, std::move(cqe));
    return IBV_WC_SUCCESS;
}

ibv_wc_status access_remote(const send_request &request, std::byte *local) {
    const bool is_read = request.wr.opcode == IBV_WR_RDMA_READ;
    std::byte *const remote =
        find_remote(request.wr.wr.rdma.rkey, request.wr.wr.rdma.remote_addr, request.sge.length,
                    is_read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE);
    if (request.sge.length == 0)
        return IBV_WC_SUCCESS;
    if (remote == nullptr)
        return IBV_WC_REM_ACCESS_ERR;
    std::memmove(is_read ? local : remote, is_read ? remote : local, request.sge.length);
    return IBV_WC_SUCCESS;
}

ibv_wc_status execute_atomic(const send_request &request, std::byte *local) {
    std::uint64_t value, new_value = request.wr.wr.atomic.compare_add;
    std::byte *const remote =
        find_remote(request.wr.wr.atomic.rkey, request.wr.wr.atomic.remote_addr, sizeof value,
                    IBV_ACCESS_REMOTE_ATOMIC);
    if (remote == nullptr || request.sge.length != sizeof value)
        return IBV_WC_REM_ACCESS_ERR;
    std::memcpy(&value, remote, sizeof value);
    if (request.wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        new_value += value;
    else
        new_value = value == new_value ? request.wr.wr.atomic.swap : value;
    std::memcpy(local, &value, sizeof value);
    std::memcpy(remote, &new_value, sizeof new_value);
    return IBV_WC_SUCCESS;
}

/// UD: a message that finds no receive is lost.
std::optional<ibv_wc_status> execute_ud(fake_qp &qp, const send_request &request,
                                        const std::byte *data) {
    fake_qp *const dest = find_qp(request.wr.wr.ud.remote_qpn);
    if (dest != nullptr && dest->state >= IBV_QPS_RTR && dest->state <= IBV_QPS_RTS)
        receive(qp, *dest, request, data);
    return IBV_WC_SUCCESS;
}

/// No value: the request waits.
std::optional<ibv_wc_status> execute(fake_qp &qp, const send_request &request) {
    const ibv_wr_opcode opcode = request.wr.opcode;
    if (opcode == IBV_WR_BIND_MW)
        return bind(*request.wr.bind_mw.mw, request.wr.bind_mw.rkey, request.wr.bind_mw.bind_info);
    if (opcode == IBV_WR_LOCAL_INV)
        return invalidate(request.wr.invalidate_rkey);
    const bool writes_local = opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
                              opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
    std::byte *const local = local_data(request, writes_local ? IBV_ACCESS_LOCAL_WRITE : 0);
    if (local == nullptr && request.sge.length != 0)
        return IBV_WC_LOC_PROT_ERR;
    if (qp.verbs.qp.qp_type == IBV_QPT_UD)
        return execute_ud(qp, request, local);
    fake_qp *const dest = find_qp(qp.dest_qp_num);
    if (dest == nullptr || dest->state < IBV_QPS_RTR || dest->state > IBV_QPS_RTS)
        return IBV_WC_RETRY_EXC_ERR;
    if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        return execute_atomic(request, local);
    if (opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_RDMA_WRITE)
        return access_remote(request, local);
    if (!is_write(opcode))
        return receive(qp, *dest, request, local);
    if (receives_of(*dest).pending.empty())
        return std::nullopt;
    const ibv_wc_status status = access_remote(request, local);
    return status == IBV_WC_SUCCESS ? receive(qp, *dest, request, local) : status;
}

} // namespace

void flush(fake_qp &qp) {
    for (const send_request &request : qp.sends.pending)
        complete_send(qp, request, IBV_WC_WR_FLUSH_ERR);
    qp.sends.pending.clear();
    fake_cqe flushed;
    flushed.wc.status = IBV_WC_WR_FLUSH_ERR;
    for (const receive_request &request : qp.receives.pending)
        complete_receive(qp, request, flushed);
    qp.receives.pending.clear();
}

bool execute(fake_qp &qp) {
    const std::size_t num_pending = qp.sends.pending.size() + qp.receives.pending.size();
    while (qp.state == IBV_QPS_RTS && !qp.sends.pending.empty()) {
        const send_request request = qp.sends.pending.front();
        const std::optional<ibv_wc_status> status = execute(qp, request);
        if (!status)
            break;
        qp.sends.pending.pop_front();
        complete_send(qp, request, *status);
        if (*status != IBV_WC_SUCCESS)
            fail(qp);
    }
    if (qp.state == IBV_QPS_ERR)
        flush(qp);
    return qp.sends.pending.size() + qp.receives.pending.size() != num_pending;
}

} // namespace fake

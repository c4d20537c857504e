// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// ibv_post_send and ibv_post_recv. A list is published up to its first invalid WR, with one store
// of the producer index. Then the lock is released and the doorbell is rung once.

#include "wqe.hpp"

#include <cerrno>
#include <mutex>

namespace coherdma::provider::rxe {
namespace {

// Copies the inline data after the WQE. Returns their length, or LENGTH_LIMIT if they are too long.
std::uint64_t set_inline_data(rxe_send_wqe &wqe, const ibv_send_wr &wr,
                              std::uint32_t max_inline_data) noexcept {
    unsigned char *end = wqe_data(wqe);
    std::uint64_t length = 0;
    for (int i = 0; i < wr.num_sge; ++i) {
        const ibv_sge &sge = wr.sg_list[i];
        length += sge.length;
        if (length > max_inline_data)
            return LENGTH_LIMIT;
        end = append_data(end, reinterpret_cast<const void *>(sge.addr), sge.length);
    }
    return length;
}

// Copies the SGEs. Returns the length of their data.
std::uint64_t set_sge_list(void *data, const ibv_sge *sg_list, std::uint32_t num_sge) noexcept {
    auto *sge = static_cast<ibv_sge *>(data);
    std::uint64_t length = 0;
    for (const ibv_sge *const end = sg_list + num_sge; sg_list != end; ++sg_list, ++sge) {
        *sge = *sg_list;
        length += sg_list->length;
    }
    return length;
}

// Sets the SGEs or inline data. Returns 0, or an errno: the content of the WQE is then undefined.
int set_data(rxe_send_wqe &wqe, const rxe_qp &qp, const ibv_send_wr &wr) noexcept {
    std::uint64_t length = 0;
    auto num_sge = static_cast<std::uint32_t>(wr.num_sge);
    if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
        if ((INLINE_OPCODES & bit(wr.opcode)) == 0 || num_sge > qp.max_send_sge)
            return EINVAL;
        length = set_inline_data(wqe, wr, qp.max_inline_data);
        num_sge = 0;
    } else {
        if (num_sge > qp.max_send_sge)
            return EINVAL;
        length = set_sge_list(&wqe + 1, wr.sg_list, num_sge);
    }
    wqe.dma = make_dma_info(length, num_sge);
    return length < LENGTH_LIMIT ? 0 : EINVAL;
}

// The kernel sends an atomic without a check. If the SGEs are too short or the address is
// unaligned, the atomic fails and the QP enters ERR.
bool is_valid_atomic(const ibv_send_wr &wr, std::uint32_t max_send_sge) noexcept {
    const auto num_sge = static_cast<std::uint32_t>(wr.num_sge);
    return wr.wr.atomic.remote_addr % ATOMIC_SIZE == 0 && num_sge <= max_send_sge &&
           total_length(wr.sg_list, num_sge) >= ATOMIC_SIZE;
}

// Sets what a WR other than RDMA Write and Read refers to: the AH of a UD Send, the remote address
// of an atomic, the MW of a bind. Returns false if that is invalid.
bool set_remote(rxe_send_wqe &wqe, const rxe_qp &qp, const ibv_send_wr &wr) noexcept {
    if (qp.verbs.qp.qp_type == IBV_QPT_UD) {
        const auto &ud = wr.wr.ud;
        if (ud.ah == nullptr)
            return false;
        wqe.wr.wr.ud = {.remote_qpn = ud.remote_qpn,
                        .remote_qkey = ud.remote_qkey,
                        .pkey_index = 0,
                        .reserved = 0,
                        .ah_num = to_rxe_ah(ud.ah).ah_num};
        return true;
    }
    if ((bit(wr.opcode) & ATOMIC_OPCODES) != 0) {
        if (!is_valid_atomic(wr, qp.max_send_sge))
            return false;
        const auto &atomic = wr.wr.atomic;
        wqe.wr.wr.atomic = {atomic.remote_addr, atomic.compare_add, atomic.swap, atomic.rkey, 0};
        wqe.iova = atomic.remote_addr;
    } else if (wr.opcode == IBV_WR_BIND_MW) {
        const auto &bind = wr.bind_mw;
        if (bind.mw == nullptr)
            return false;
        wqe.wr.wr.mw = make_mw_wr(*bind.mw, bind.rkey, bind.bind_info);
    }
    return true;
}

/// Writes the WQE of a WR at the SQ's producer index and advances that; post_send publishes it.
/// Returns 0, or an errno: then no WQE was added.
int write_send_wqe(rxe_qp &qp, const ibv_send_wr &wr) noexcept {
    const auto opcode = static_cast<unsigned>(wr.opcode);
    constexpr unsigned max_opcodes = 32; // bits of qp.supported_opcodes
    if (opcode >= max_opcodes || (qp.supported_opcodes >> opcode & 1) == 0)
        return EINVAL;
    // One entry of the ring stays free, so this WQE is not the kernel's also if the SQ is full.
    auto &wqe = *static_cast<rxe_send_wqe *>(qp.sq.next_wqe());
    static_assert(sizeof(wr.imm_data) == sizeof(wr.invalidate_rkey), "a union");
    wqe.wr.wr_id = wr.wr_id;
    wqe.wr.opcode = opcode;
    wqe.wr.send_flags = wr.send_flags & SEND_FLAGS;
    wqe.wr.ex.imm_data = wr.imm_data;
    wqe.status = wqe.state = wqe.has_rd_atomic = 0;
    constexpr std::uint32_t rdma_opcodes = WRITE_OPCODES | bit(IBV_WR_RDMA_READ);
    if ((rdma_opcodes >> opcode & 1) != 0) {
        wqe.wr.wr.rdma.remote_addr = wqe.iova = wr.wr.rdma.remote_addr;
        wqe.wr.wr.rdma.rkey = wr.wr.rdma.rkey;
    } else if (!set_remote(wqe, qp, wr)) {
        return EINVAL;
    }
    if ((OPCODES_WITHOUT_SGE >> opcode & 1) != 0) {
        wqe.dma = {};
    } else if (const int error = set_data(wqe, qp, wr)) {
        return error;
    }
    if (qp.sq.is_full())
        return ENOMEM;
    qp.sq.advance_producer();
    return 0;
}

/// Writes the WQEs up to the first invalid WR, publishes them together and rings the doorbell.
int post_send(ibv_qp *ibqp, ibv_send_wr *wr_list, ibv_send_wr **bad_wr) noexcept {
    rxe_qp &qp = to_rxe_qp(ibqp);
    // Before RTS the kernel refuses the doorbell, but in RTS it would send the WQEs.
    if (wr_list != nullptr && ibqp->state < IBV_QPS_RTS) {
        set_bad_wr(bad_wr, wr_list);
        return EINVAL;
    }
    int error = 0;
    qp.sq_lock.lock();
    qp.sq.adopt_producer();
    for (ibv_send_wr *wr = wr_list; wr != nullptr; wr = wr->next) {
        error = write_send_wqe(qp, *wr);
        if (error != 0) [[unlikely]] {
            set_bad_wr(bad_wr, wr);
            break;
        }
    }
    const bool has_new_wqe = qp.sq.publish_new();
    qp.sq_lock.unlock();
    if (has_new_wqe) {
        const int doorbell_error = qp.ring_doorbell();
        if (doorbell_error != 0 && error == 0) [[unlikely]] {
            set_bad_wr(bad_wr, wr_list);
            error = doorbell_error;
        }
    }
    trace::post_send(ibqp->qp_num, error);
    return error;
}

/// Writes the WQE of a receive WR and advances the producer index; post_recvs publishes it.
int write_recv_wqe(wq_ring &ring, std::uint32_t max_sge, const ibv_recv_wr &wr) noexcept {
    const auto num_sge = static_cast<std::uint32_t>(wr.num_sge);
    if (num_sge > max_sge)
        return EINVAL;
    if (ring.is_full())
        return ENOMEM;
    auto &wqe = *static_cast<rxe_recv_wqe *>(ring.next_wqe());
    const std::uint64_t length = set_sge_list(&wqe + 1, wr.sg_list, num_sge);
    wqe.wr_id = wr.wr_id;
    wqe.dma = make_dma_info(length, num_sge);
    if (length >= LENGTH_LIMIT)
        return EINVAL;
    ring.advance_producer();
    return 0;
}

int post_recv(ibv_qp *ibqp, ibv_recv_wr *wr, ibv_recv_wr **bad_wr) noexcept {
    rxe_qp &qp = to_rxe_qp(ibqp);
    if (!qp.rq.is_mapped() || ibqp->state == IBV_QPS_RESET) { // not mapped: the QP has an SRQ
        set_bad_wr(bad_wr, wr);
        return EINVAL;
    }
    const int error = post_recvs(qp.rq, qp.rq_lock, qp.max_recv_sge, wr, bad_wr);
    // The kernel flushes receives when the QP is modified to ERR, not later. Ordering: see
    // set_in_error(). Either it flushes these receives, or in_error is set here and
    // move_qp_to_err() has it flush them.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (std::atomic_ref(qp.in_error).load(std::memory_order_relaxed))
        move_qp_to_err(qp);
    trace::post_receive(ibqp->qp_num, error);
    return error;
}

} // namespace

/// Coalesced with those of other threads, unless the consumer uses the QP from one thread at a
/// time. Returns 0 or an errno.
// Also the errno of a doorbell for other threads. The kernel refuses one only for good: the QP is
// in RESET, or the device is gone. Then it does not complete the WQEs of this post either.
int rxe_qp::ring_doorbell() noexcept {
    return sq_lock.is_single_threaded() ? provider::ring_doorbell(verbs.qp, RDMA_DRIVER_RXE)
                                        : sq_doorbell.ring_coalesced(verbs.qp, RDMA_DRIVER_RXE);
}

/// Writes and publishes the WQEs of a list of receive WRs, up to the first invalid one. Returns 0,
/// or an errno and sets *bad_wr.
int post_recvs(wq_ring &ring, spinlock &lock, std::uint32_t max_sge, ibv_recv_wr *wr,
               ibv_recv_wr **bad_wr) noexcept {
    const std::lock_guard guard(lock);
    ring.adopt_producer();
    int error = 0;
    for (; wr != nullptr; wr = wr->next) {
        error = write_recv_wqe(ring, max_sge, *wr);
        if (error != 0) {
            set_bad_wr(bad_wr, wr);
            break;
        }
    }
    ring.publish();
    return error;
}

/// Bits of the ibv_wr_opcodes that a QP type supports.
std::uint32_t get_supported_opcodes(ibv_qp_type type) noexcept {
    switch (type) {
    case IBV_QPT_RC:
        return SEND_OPCODES | WRITE_OPCODES | ATOMIC_OPCODES | OPCODES_WITHOUT_SGE |
               bit(IBV_WR_RDMA_READ) | bit(IBV_WR_SEND_WITH_INV);
    case IBV_QPT_UC:
        return SEND_OPCODES | WRITE_OPCODES | bit(IBV_WR_BIND_MW) | bit(IBV_WR_SEND_WITH_INV);
    case IBV_QPT_UD:
        return SEND_OPCODES;
    default:
        return 0;
    }
}

void fill_post_ops(abi::verbs_context_ops &ops) noexcept {
    ops.post_send = post_send;
    ops.post_recv = post_recv;
}

} // namespace coherdma::provider::rxe

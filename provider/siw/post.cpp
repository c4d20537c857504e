// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// ibv_post_send and ibv_post_recv. A WR that the kernel cannot execute stops the SQ forever, so
// each is checked here.

#include "wqe.hpp"

#include <array>
#include <cerrno>
#include <mutex>
#include <sched.h>

namespace coherdma::provider::siw {
namespace {

constexpr std::uint8_t NO_OPCODE = 0xff;
/// Indexed by ibv_wr_opcode.
constexpr auto SIW_OPCODES = [] {
    std::array<std::uint8_t, IBV_WR_SEND_WITH_INV + 1> opcodes = {};
    opcodes.fill(NO_OPCODE);
    opcodes[IBV_WR_RDMA_WRITE] = SIW_OP_WRITE;
    opcodes[IBV_WR_RDMA_READ] = SIW_OP_READ;
    opcodes[IBV_WR_SEND] = SIW_OP_SEND;
    opcodes[IBV_WR_SEND_WITH_INV] = SIW_OP_SEND_REMOTE_INV;
    return opcodes;
}();

/// Copies the inline data into the WQE and sets SIW_WQE_INLINE in flags. Returns false if they are
/// too long.
bool set_inline_data(const siw_qp &qp, siw_sqe &sqe, const ibv_send_wr &wr,
                     unsigned &flags) noexcept {
    unsigned char *end = inline_data(sqe);
    std::uint32_t length = 0;
    for (int i = 0; i < wr.num_sge; ++i) {
        const ibv_sge &sge = wr.sg_list[i];
        if (sge.length > qp.max_inline_data - length)
            return false;
        if (sge.length != 0)
            std::memcpy(end, reinterpret_cast<const void *>(sge.addr), sge.length);
        end += sge.length;
        length += sge.length;
    }
    flags |= set_inline_length(sqe, length);
    return true;
}

/// Writes the WQE of a WR at index and makes it VALID. Returns 0 or an errno.
int write_send_wqe(siw_qp &qp, std::uint32_t index, const ibv_send_wr &wr) noexcept {
    const auto ibv_opcode = static_cast<unsigned>(wr.opcode);
    if (ibv_opcode >= SIW_OPCODES.size() || SIW_OPCODES[ibv_opcode] == NO_OPCODE || wr.num_sge < 0)
        return EINVAL;
    const std::uint8_t opcode = SIW_OPCODES[ibv_opcode];
    wqe_header *const wqe = qp.sq.ring.get_free_wqe(index);
    if (wqe == nullptr)
        return ENOMEM;
    qp.sq.ring.set_last_written(index);
    siw_sqe &sqe = to_sqe(*wqe);
    unsigned flags = make_wqe_flags(qp, index, opcode, wr.send_flags) | SIW_WQE_VALID;
    if ((wr.send_flags & IBV_SEND_INLINE) != 0) {
        if ((opcode != SIW_OP_SEND && opcode != SIW_OP_WRITE) ||
            !set_inline_data(qp, sqe, wr, flags))
            return EINVAL;
    } else if (!set_sge_list(sqe, qp, opcode, wr.sg_list, static_cast<std::size_t>(wr.num_sge))) {
        return EINVAL;
    }
    if (opcode == SIW_OP_READ && !is_read_allowed(qp))
        return EINVAL;
    sqe.id = wr.wr_id;
    sqe.opcode = opcode;
    if (opcode == SIW_OP_SEND_REMOTE_INV) {
        sqe.rkey = wr.invalidate_rkey;
    } else {
        sqe.rkey = wr.wr.rdma.rkey;
        sqe.raddr = wr.wr.rdma.remote_addr;
    }
    store_flags(*wqe, static_cast<std::uint16_t>(flags));
    return 0;
}

/// Whether the kernel reports RTS.
bool is_in_rts(siw_qp &qp) noexcept {
    ibv_qp_attr attr = {};
    ibv_qp_init_attr init_attr = {};
    // ibv_query_qp() would store the state in the ibv_qp.
    return query_qp(&qp.verbs.qp, &attr, IBV_QP_STATE, &init_attr) == 0 &&
           attr.qp_state == IBV_QPS_RTS;
}

/// After a doorbell that failed. index: of the first WQE that it was for.
// The kernel returns ENOTCONN if the QP is not in RTS, and also in RTS while a thread modifies the
// QP or waits for that. A WQE left in RTS would stop the SQ: while it is pending, later posts skip
// the doorbell. So only a QP in another state moves to ERR: its connection is closed. Kernels
// before 6.8 do not set the state that they report, which is RESET or any, so the time is limited.
// sched_yield() is no cancellation point, as a sleep would be.
[[gnu::noinline, gnu::cold]] void retry_doorbell(siw_qp &qp, std::uint32_t index) noexcept {
    constexpr int max_retries_unless_rts = 3;
    constexpr std::uint64_t max_ns = NS_PER_S;
    const std::uint64_t begin_ns = get_time_ns();
    for (int retries = 1;; ++retries) {
        sched_yield();
        const int error = ring_doorbell(qp.verbs.qp, RDMA_DRIVER_SIW);
        if (error == 0)
            return check_wqe_taken(qp, index);
        if (error != ENOTCONN)
            break;
        if (retries >= max_retries_unless_rts &&
            (!is_in_rts(qp) || get_time_ns() - begin_ns > max_ns))
            break;
    }
    move_qp_to_err(qp);
}

/// Whether the QP is or was connected.
// A QP whose connection is closing or closed keeps the numbers of Reads that were negotiated. Its
// state is no evidence: kernel 6.1 does not report it, and a closed QP may return to IDLE.
bool was_connected(siw_qp &qp) noexcept {
    ibv_qp_attr attr = {};
    ibv_qp_init_attr init_attr = {};
    constexpr int mask = IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC;
    return ibv_query_qp(&qp.verbs.qp, &attr, mask, &init_attr) == 0 &&
           (attr.max_rd_atomic != 0 || attr.max_dest_rd_atomic != 0);
}

/// For a QP in error, whose new WQEs this provider flushes at the next poll: has the kernel raise
/// an event, if the consumer waits for one.
[[gnu::noinline, gnu::cold]] int submit_in_error_and_unlock(siw_qp &qp) noexcept {
    siw_cq &cq = to_siw_cq(qp.verbs.qp.send_cq);
    cq.announce_wqe_to_flush();
    qp.sq_lock.unlock();
    force_cq_event(cq);
    return 0;
}

/// Rings the doorbell for the WQEs from begin to end, while none has succeeded yet. If the QP was
/// never connected, withdraws the WQEs and returns an errno. The lock is held over the system calls
/// so that no other thread adds WQEs.
[[gnu::noinline, gnu::cold]] int submit_unconnected_and_unlock(siw_qp &qp, std::uint32_t begin,
                                                               std::uint32_t end) noexcept {
    wq_ring &ring = qp.sq.ring;
    const int error = ring_doorbell(qp.verbs.qp, RDMA_DRIVER_SIW);
    qp.connected_once = error == 0 || (error == ENOTCONN && was_connected(qp));
    if (!qp.connected_once) {
        ring.set_prod(begin);
        // Ordering: stores prod, then loads in_error; move_qp_to_err() sets in_error, then loads
        // prod. So the WQEs are withdrawn only if it does not flush them.
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (std::atomic_ref(qp.in_error).load(std::memory_order_relaxed)) {
            ring.set_prod(end);
            return submit_in_error_and_unlock(qp);
        }
        for (std::uint32_t index = begin; index != end; ++index)
            store_flags(ring.wqe(index), 0);
        qp.sq_lock.unlock();
        return error == ENOTCONN ? EINVAL : error;
    }
    qp.sq_lock.unlock();
    if (error != 0)
        retry_doorbell(qp, begin);
    else
        check_wqe_taken(qp, begin);
    return 0;
}

/// Submits the VALID WQEs from the ring's prod to end, and releases sq_lock. Returns 0 if the
/// kernel or this provider completes them; otherwise withdraws them and returns an errno.
[[gnu::always_inline]] inline int submit_and_unlock_inline(siw_qp &qp, std::uint32_t end) noexcept {
    wq_ring &ring = qp.sq.ring;
    const std::uint32_t begin = ring.prod;
    if (begin == end) {
        qp.sq_lock.unlock();
        return 0;
    }
    ring.set_prod(end);
    // Ordering: stores the WQEs and prod, then loads in_error and the flags of the WQE before them.
    // move_qp_to_err() sets in_error, then loads prod; the kernel clears the flags of a WQE, then
    // loads the next WQE. So each WQE is either processed by the kernel or flushed by this
    // provider.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (std::atomic_ref(qp.in_error).load(std::memory_order_relaxed)) [[unlikely]]
        return submit_in_error_and_unlock(qp);
    if (!qp.connected_once) [[unlikely]]
        return submit_unconnected_and_unlock(qp, begin, end);
    // If the WQE before the first new one is pending, the kernel is processing the SQ and reaches
    // the new ones without a doorbell.
    const bool is_kernel_active =
        end - begin <= ring.mem.index_mask && is_pending(ring.wqe(begin - 1));
    qp.sq_lock.unlock();
    if (is_kernel_active)
        return 0;
    const int error = qp.sq_lock.is_single_threaded()
                          ? ring_doorbell(qp.verbs.qp, RDMA_DRIVER_SIW)
                          : qp.sq_doorbell.ring_coalesced(qp.verbs.qp, RDMA_DRIVER_SIW);
    if (error != 0) [[unlikely]]
        retry_doorbell(qp, begin);
    else if (is_pending(ring.wqe(begin)))
        check_wqe_taken(qp, begin);
    return 0;
}

/// Makes the WQEs up to the first invalid WR VALID and submits them together.
int post_send(ibv_qp *ibqp, ibv_send_wr *wr_list, ibv_send_wr **bad_wr) noexcept {
    siw_qp &qp = to_siw_qp(ibqp);
    int error = 0;
    qp.sq_lock.lock();
    std::uint32_t end = qp.sq.ring.prod;
    for (ibv_send_wr *wr = wr_list; wr != nullptr; wr = wr->next) {
        error = write_send_wqe(qp, end, *wr);
        if (error != 0) [[unlikely]] {
            set_bad_wr(bad_wr, wr);
            break;
        }
        ++end;
    }
    if (const int submit_error = submit_and_unlock_inline(qp, end)) [[unlikely]] {
        set_bad_wr(bad_wr, wr_list);
        error = submit_error;
    }
    trace::post_send(ibqp->qp_num, error);
    return error;
}

/// Writes the WQE of a receive WR at index and makes it VALID. Returns 0 or an errno.
int write_recv_wqe(wq_ring &ring, std::uint32_t index, std::uint32_t max_sge,
                   const ibv_recv_wr &wr) noexcept {
    const auto num_sge = static_cast<std::uint32_t>(wr.num_sge);
    if (num_sge > max_sge)
        return EINVAL;
    wqe_header &wqe = ring.wqe(index);
    if (load_flags(wqe) != 0)
        return ENOMEM;
    ring.set_last_written(index);
    auto &rqe = reinterpret_cast<siw_rqe &>(wqe);
    rqe.id = wr.wr_id;
    rqe.num_sge = static_cast<std::uint8_t>(num_sge);
    siw_sge *dest = rqe.sge;
    for (const ibv_sge *sge = wr.sg_list, *end = sge + num_sge; sge != end; ++sge, ++dest)
        *dest = {sge->addr, sge->length, sge->lkey};
    store_flags(wqe, SIW_WQE_VALID);
    return 0;
}

int post_recv(ibv_qp *ibqp, ibv_recv_wr *wr, ibv_recv_wr **bad_wr) noexcept {
    siw_qp &qp = to_siw_qp(ibqp);
    if (!qp.rq.ring.mem.is_mapped()) {
        set_bad_wr(bad_wr, wr);
        return EINVAL;
    }
    const int error = post_recvs(qp.rq.ring, qp.rq_lock, qp.max_recv_sge, wr, bad_wr);
    // Ordering: stores the WQEs, then loads in_error; see submit_and_unlock_inline().
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (std::atomic_ref(qp.in_error).load(std::memory_order_relaxed)) {
        siw_cq &cq = to_siw_cq(ibqp->recv_cq);
        cq.announce_wqe_to_flush();
        force_cq_event(cq);
    }
    trace::post_receive(ibqp->qp_num, error);
    return error;
}

} // namespace

/// Whether the peer accepts RDMA Reads. If it does not, a Read stops the SQ.
// siw's kernel driver reports the number of outgoing Reads in max_dest_rd_atomic.
bool is_read_allowed(siw_qp &qp) noexcept {
    // In ERR a Read is flushed, also if the QP was never connected.
    if (qp.read_allowed || std::atomic_ref(qp.in_error).load(std::memory_order_relaxed))
        return true;
    ibv_qp_attr attr = {};
    ibv_qp_init_attr init_attr = {};
    const int error = ibv_query_qp(&qp.verbs.qp, &attr, IBV_QP_MAX_DEST_RD_ATOMIC, &init_attr);
    qp.read_allowed = error != 0 || attr.max_dest_rd_atomic != 0;
    return qp.read_allowed;
}

int submit_and_unlock(siw_qp &qp, std::uint32_t end) noexcept {
    return submit_and_unlock_inline(qp, end);
}

/// Writes a WQE for each receive WR of the list, up to the first invalid one. Returns 0, or an
/// errno and sets *bad_wr.
int post_recvs(wq_ring &ring, spinlock &lock, std::uint32_t max_sge, ibv_recv_wr *wr,
               ibv_recv_wr **bad_wr) noexcept {
    const std::lock_guard guard(lock);
    std::uint32_t index = ring.prod;
    int error = 0;
    for (; wr != nullptr; wr = wr->next, ++index) {
        error = write_recv_wqe(ring, index, max_sge, *wr);
        if (error != 0) [[unlikely]] {
            set_bad_wr(bad_wr, wr);
            break;
        }
    }
    ring.set_prod(index);
    return error;
}

void fill_post_ops(abi::verbs_context_ops &ops) noexcept {
    ops.post_send = post_send;
    ops.post_recv = post_recv;
}

} // namespace coherdma::provider::siw

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// QPs and their states.

#include "common/create.hpp"
#include "objects.hpp"

#include <algorithm>
#include <cerrno>
#include <mutex>

namespace coherdma::provider::rxe {
namespace {

void unmap_rings(rxe_qp &qp) noexcept {
    qp.sq.unmap();
    qp.rq.unmap();
}

[[gnu::cold]] int destroy_qp(ibv_qp *ibqp) noexcept {
    rxe_qp &qp = to_rxe_qp(ibqp);
    auto &qps = to_rxe_context(ibqp->context).qps;
    qps.retire(qp);
    if (const int error = libibverbs().ibv_cmd_destroy_qp(ibqp)) {
        qps.restore(qp);
        return error;
    }
    qps.forget(qp);
    unmap_rings(qp);
    std::free(&qp);
    return 0;
}

/// Maps the SQ and, if has_rq, the RQ. cap has the limits that the kernel granted; the entries of
/// the rings must have room for them. Returns 0 or an errno.
int map_rings(rxe_qp &qp, const rxe_create_qp_resp &resp, const ibv_qp_cap &cap,
              bool has_rq) noexcept {
    const int fd = qp.verbs.qp.context->cmd_fd;
    qp.max_send_sge = cap.max_send_sge;
    qp.max_inline_data = cap.max_inline_data;
    qp.max_recv_sge = cap.max_recv_sge;
    const std::size_t send_size =
        std::max(std::size_t{qp.max_send_sge} * sizeof(ibv_sge), std::size_t{qp.max_inline_data});
    if (const int error = qp.sq.map(fd, resp.sq_mi, sizeof(rxe_send_wqe) + send_size))
        return error;
    qp.sq.reset();
    if (!has_rq)
        return 0;
    const std::size_t recv_size = std::size_t{qp.max_recv_sge} * sizeof(ibv_sge);
    if (const int error = qp.rq.map(fd, resp.rq_mi, sizeof(rxe_recv_wqe) + recv_size))
        return error;
    qp.rq.reset();
    return 0;
}

/// Maps the rings of a QP that the kernel created; if that fails, has the kernel destroy the QP.
template <class init_attr>
rxe_qp *init_qp_or_destroy(calloc_ptr<rxe_qp> &qp, const init_attr &attr,
                           const rxe_create_qp_resp &resp, bool single_threaded) noexcept {
    ibv_qp *const ibqp = &qp->verbs.qp;
    qp->supported_opcodes = get_supported_opcodes(attr.qp_type);
    qp->sq_lock.init(single_threaded);
    qp->rq_lock.init(single_threaded);
    if (const int error = map_rings(*qp, resp, attr.cap, attr.srq == nullptr)) {
        libibverbs().ibv_cmd_destroy_qp(ibqp);
        unmap_rings(*qp);
        return fail_with(error);
    }
    to_rxe_context(ibqp->context).qps.add(*qp);
    return qp.release();
}

// IBV_QP_EX_WITH_* flags are the bits of the opcodes.
static_assert(IBV_QP_EX_WITH_SEND == 1U << IBV_WR_SEND);
static_assert(IBV_QP_EX_WITH_SEND_WITH_INV == 1U << IBV_WR_SEND_WITH_INV);
static_assert(IBV_QP_EX_WITH_BIND_MW == 1U << IBV_WR_BIND_MW);

} // namespace

/// The IBV_QP_EX_WITH_... bits that a QP type can have. Queries the device only if send_ops has an
/// atomic write or a flush.
std::uint64_t get_supported_send_ops(ibv_context *context, ibv_qp_type type,
                                     std::uint64_t send_ops) noexcept {
    std::uint64_t supported = get_supported_opcodes(type);
    if ((send_ops & (QP_EX_WITH_ATOMIC_WRITE | QP_EX_WITH_FLUSH)) == 0 || type != IBV_QPT_RC)
        return supported;
    ibv_device_attr_ex attr = {};
    if (ibv_query_device_ex(context, nullptr, &attr) != 0)
        return supported;
    if (abi::current_layout().wr_atomic_write_offset != 0 &&
        (attr.device_cap_flags_ex & DEVICE_ATOMIC_WRITE) != 0)
        supported |= QP_EX_WITH_ATOMIC_WRITE;
    if (abi::current_layout().wr_flush_offset != 0 &&
        (attr.device_cap_flags_ex & DEVICE_FLUSH_GLOBAL_AND_PERSISTENT) != 0)
        supported |= QP_EX_WITH_FLUSH;
    return supported;
}

namespace {

// The kernel keeps the CQEs of a QP that was destroyed or reset; the consumer must not poll them.
void discard_cqes_of_reset_qp(rxe_cq &cq, const rxe_qp &qp) noexcept {
    const cq_spinlock::guard guard(cq.lock);
    discard_cqes(cq, qp);
}

// Called after the QP entered RESET: the kernel has dropped its WQEs.
void reset_qp(rxe_qp &qp) noexcept {
    const ibv_qp &ibqp = qp.verbs.qp;
    discard_cqes_of_reset_qp(to_rxe_cq(ibqp.send_cq), qp);
    if (ibqp.recv_cq != ibqp.send_cq)
        discard_cqes_of_reset_qp(to_rxe_cq(ibqp.recv_cq), qp);
    {
        const std::lock_guard guard(qp.sq_lock);
        qp.sq.reset();
    }
    if (!qp.rq.is_mapped())
        return;
    const std::lock_guard guard(qp.rq_lock);
    qp.rq.reset();
}

/// Sets qp.in_error before the system call that moves the QP to ERR. Returns whether it was set.
// Ordering: post_recv() publishes receives, and then, after a fence, loads in_error. So either the
// kernel loads a producer index with them, and flushes them, or post_recv() does. A system call is
// no barrier.
[[gnu::cold]] bool set_in_error(rxe_qp &qp) noexcept {
    const bool was_in_error = std::atomic_ref(qp.in_error).exchange(true);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return was_in_error;
}

/// Also sets qp.in_error, which tells post_recv() and polls whether the QP is in ERR.
int modify_qp(ibv_qp *ibqp, ibv_qp_attr *attr, int attr_mask) noexcept {
    rxe_qp &qp = to_rxe_qp(ibqp);
    const bool has_state = (attr_mask & IBV_QP_STATE) != 0;
    const bool is_reset = has_state && attr->qp_state == IBV_QPS_RESET;
    std::atomic_ref in_error(qp.in_error);
    bool was_in_error = true;
    // Also set during a reset, so that an earlier failed completion does not move the QP to ERR.
    if (is_reset || (has_state && attr->qp_state == IBV_QPS_ERR))
        was_in_error = set_in_error(qp);
    if (is_reset) // a poll that has found it not set moves the QP to ERR before the reset
        to_rxe_context(ibqp->context).qps.wait_for_visits();
    if (const int error = modify_qp_cmd(ibqp, attr, attr_mask)) {
        if (!was_in_error)
            in_error.store(false);
        return error;
    }
    if (is_reset) {
        reset_qp(qp);
        in_error.store(false); // no other state leaves ERR
    }
    return 0;
}

} // namespace

/// If the QP is in ERR already, the kernel flushes the receives posted since.
int move_qp_to_err(rxe_qp &qp) noexcept {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_ERR;
    return modify_qp_cmd(&qp.verbs.qp, &attr, IBV_QP_STATE);
}

/// Whether the kernel has moved the QP to ERR, after one of its completions has failed.
[[gnu::cold]] static bool is_in_err(rxe_qp &qp) noexcept {
    if (qp.verbs.qp.qp_type == IBV_QPT_RC)
        return true;
    // A UC or UD QP may still work: a message that is too long for the receive only fails that.
    ibv_qp_attr attr = {};
    ibv_qp_init_attr init_attr = {};
    return query_qp(&qp.verbs.qp, &attr, IBV_QP_STATE, &init_attr) == 0 &&
           attr.qp_state == IBV_QPS_ERR;
}

/// Called by a poll for each failed completion. From then on post_recv() has the kernel flush.
[[gnu::cold]] void move_qp_num_to_err(rxe_context &context, std::uint32_t qp_num) noexcept {
    context.qps.visit(qp_num, [](rxe_qp &qp) {
        if (!std::atomic_ref(qp.in_error).load() && is_in_err(qp) && !set_in_error(qp))
            move_qp_to_err(qp);
    });
}

void fill_qp_ops(abi::verbs_context_ops &ops) noexcept {
    ops.create_qp = create_qp<rxe_qp, rxe_create_qp_resp, init_qp_or_destroy<ibv_qp_init_attr>>;
    ops.create_qp_ex =
        create_qp_ex<rxe_qp, rxe_create_qp_resp, init_qp_or_destroy<ibv_qp_init_attr_ex>,
                     get_supported_send_ops>;
    ops.modify_qp = modify_qp;
    ops.query_qp = query_qp;
    ops.destroy_qp = destroy_qp;
}

} // namespace coherdma::provider::rxe

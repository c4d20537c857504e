// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// QPs and their error state. The provider does not know a QP's state: the connection manager
// connects the QP in the kernel, and the peer may disconnect at any time.
//
// If a QP is in error, the kernel flushes the WQEs that it has taken. This provider flushes those
// that are left in the rings and those posted later: move_qp_to_err() adds the SQ and RQ to the
// flush lists of their CQs, and a poll flushes their WQEs.

#include "common/create.hpp"
#include "objects.hpp"

#include <algorithm>
#include <cerrno>

namespace coherdma::provider::siw {
namespace {

void unmap_rings(siw_qp &qp) noexcept {
    qp.sq.ring.mem.unmap();
    qp.rq.ring.mem.unmap();
}

void free_qp(siw_qp &qp) noexcept {
    unmap_rings(qp);
    std::free(&qp);
}

[[gnu::cold]] int destroy_qp(ibv_qp *ibqp) noexcept {
    siw_qp &qp = to_siw_qp(ibqp);
    auto &qps = to_siw_context(ibqp->context).qps;
    qps.retire(qp);
    if (const int error = libibverbs().ibv_cmd_destroy_qp(ibqp)) {
        qps.restore(qp);
        return error;
    }
    qps.forget(qp);
    free_qp(qp);
    return 0;
}

/// Maps the SQ and, if has_rq, the RQ. Returns 0 or an errno.
int map_rings(siw_qp &qp, const siw_uresp_create_qp &resp, bool has_rq) noexcept {
    const int fd = qp.verbs.qp.context->cmd_fd;
    qp.sq.ring.wqe_size = sizeof(siw_sqe);
    qp.rq.ring.wqe_size = sizeof(siw_rqe);
    qp.rq.is_rq = true;
    qp.sq.qp_num = qp.rq.qp_num = qp.verbs.qp.qp_num;
    if (const int error = qp.sq.ring.mem.map(fd, resp.sq_key, resp.num_sqe, sizeof(siw_sqe)))
        return error;
    if (!has_rq)
        return 0;
    return qp.rq.ring.mem.map(fd, resp.rq_key, resp.num_rqe, sizeof(siw_rqe));
}

/// Maps the rings of a QP that the kernel created; if that fails, has the kernel destroy the QP.
/// Sets attr.cap to the granted values: the kernel's core response has the requested ones.
template <class init_attr>
[[gnu::cold]] siw_qp *map_qp_or_destroy(calloc_ptr<siw_qp> &qp, init_attr &attr,
                                        const siw_uresp_create_qp &resp,
                                        bool single_threaded) noexcept {
    ibv_qp *const ibqp = &qp->verbs.qp;
    ibv_qp_cap &cap = attr.cap;
    const bool has_rq = attr.srq == nullptr && cap.max_recv_wr != 0;
    qp->sq_lock.init(single_threaded);
    qp->rq_lock.init(single_threaded);
    qp->default_wqe_flags = attr.sq_sig_all != 0 ? unsigned{SIW_WQE_SIGNALLED} : 0U;
    if (const int error = map_rings(*qp, resp, has_rq)) {
        libibverbs().ibv_cmd_destroy_qp(ibqp);
        unmap_rings(*qp);
        return fail_with(error);
    }
    cap.max_send_wr = resp.num_sqe;
    if (has_rq)
        cap.max_recv_wr = resp.num_rqe;
    cap.max_inline_data = SIW_MAX_INLINE;
    qp->max_inline_data = SIW_MAX_INLINE;
    qp->max_send_sge = std::min<std::uint32_t>(cap.max_send_sge, SIW_MAX_SGE);
    qp->max_recv_sge = std::min<std::uint32_t>(cap.max_recv_sge, SIW_MAX_SGE);
    return qp.release();
}

std::uint64_t get_supported_send_ops(ibv_context *, ibv_qp_type, std::uint64_t) noexcept {
    return SEND_OPS;
}

constexpr auto create_qp_and_map =
    create_qp<siw_qp, siw_uresp_create_qp, map_qp_or_destroy<ibv_qp_init_attr>>;
constexpr auto create_qp_ex_and_map =
    create_qp_ex<siw_qp, siw_uresp_create_qp, map_qp_or_destroy<ibv_qp_init_attr_ex>,
                 get_supported_send_ops>;

/// Adds the QP to the context's table.
ibv_qp *list_qp(ibv_qp *ibqp) noexcept {
    if (ibqp != nullptr)
        to_siw_context(ibqp->context).qps.add(to_siw_qp(ibqp));
    return ibqp;
}
ibv_qp *create_listed_qp(ibv_pd *pd, ibv_qp_init_attr *attr) noexcept {
    return list_qp(create_qp_and_map(pd, attr));
}
ibv_qp *create_listed_qp_ex(ibv_context *context, ibv_qp_init_attr_ex *attr) noexcept {
    return list_qp(create_qp_ex_and_map(context, attr));
}

/// Whether the queue has WQEs that the kernel has not taken. It takes them in order, so the last
/// one is pending if any is.
bool has_pending_wqe(siw_wq &wq) noexcept {
    if (!wq.ring.mem.is_mapped())
        return false;
    const std::uint32_t prod = std::atomic_ref(wq.ring.prod).load(std::memory_order_acquire);
    return is_pending(wq.ring.wqe(prod - 1));
}

int modify_qp(ibv_qp *ibqp, ibv_qp_attr *attr, int attr_mask) noexcept {
    siw_qp &qp = to_siw_qp(ibqp);
    if (const int error = modify_qp_cmd(ibqp, attr, attr_mask))
        return error;
    if ((attr_mask & IBV_QP_STATE) != 0 && attr->qp_state == IBV_QPS_ERR)
        move_qp_to_err(qp);
    return 0;
}

/// Has polls of the CQ flush the WQEs of a QP in error: those before prod that the kernel has not
/// taken, and those posted later.
[[gnu::cold]] void add_to_flush_list(siw_wq &wq, siw_cq &cq) noexcept {
    // Ordering: sequentially consistent, as the exchange of in_error; see
    // submit_unconnected_and_unlock().
    std::uint32_t flush_index = std::atomic_ref(wq.ring.prod).load();
    while (wq.ring.is_wqe_pending(flush_index - 1))
        --flush_index;
    wq.flush_index = flush_index;
    std::atomic_ref flush_list(cq.flush_list);
    wq.next = flush_list.load();
    while (!flush_list.compare_exchange_weak(wq.next, &wq)) {
    }
    cq.announce_wqe_to_flush();
}

[[gnu::cold]] void flush_to_cq(siw_wq &wq, siw_cq &cq) noexcept {
    add_to_flush_list(wq, cq);
    // Ordering: loads no older prod than add_to_flush_list(). A later post finds in_error set.
    if (has_pending_wqe(wq))
        force_cq_event(cq);
}

// Queries a QP that may be in error, and moves it to ERR if it is. If it is in RTS, the kernel is
// busy, and the QP may still be in error later.
[[gnu::cold]] void check_qp_for_error(siw_qp &qp) noexcept {
    ibv_qp_attr attr = {};
    ibv_qp_init_attr init_attr = {};
    const std::atomic_ref may_be_in_error(qp.may_be_in_error);
    // Ordering: what is cleared is that of posts whose prod is seen, as all change the flag; a
    // later post sets it again.
    may_be_in_error.exchange(false);
    if (!has_pending_wqe(qp.sq) || query_qp(&qp.verbs.qp, &attr, IBV_QP_STATE, &init_attr) != 0)
        return;
    if (attr.qp_state == IBV_QPS_ERR) {
        move_qp_to_err(qp);
    } else if (attr.qp_state == IBV_QPS_RTS) {
        may_be_in_error.exchange(true);
        std::atomic_ref(to_siw_cq(qp.verbs.qp.send_cq).has_qp_to_check).store(true);
    }
}

} // namespace

/// Moves a QP to ERR once. From then on a poll of its CQs flushes the WQEs that the kernel has not
/// taken. Raises an event for them, which the kernel does not: a consumer that another thread's
/// post has woken may have found the flush list without them.
// After modify_qp_cmd() the kernel has flushed the WQEs that it had taken. It looks at the rings
// once more when the connection ends; see flush_wqe(). Ordering: in_error is set before prod is
// loaded; see submit_and_unlock_inline().
[[gnu::cold]] void move_qp_to_err(siw_qp &qp) noexcept {
    if (std::atomic_ref(qp.in_error).exchange(true))
        return;
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_ERR;
    modify_qp_cmd(&qp.verbs.qp, &attr, IBV_QP_STATE);
    flush_to_cq(qp.sq, to_siw_cq(qp.verbs.qp.send_cq));
    if (qp.rq.ring.mem.is_mapped())
        flush_to_cq(qp.rq, to_siw_cq(qp.verbs.qp.recv_cq));
}

void move_qp_num_to_err(siw_context &context, std::uint32_t qp_num) noexcept {
    context.qps.visit(qp_num, move_qp_to_err);
}

/// After a doorbell: sets may_be_in_error if the kernel has not taken the WQE at index.
// Only a query distinguishes a QP in error from a kernel that is busy. The query is a system call,
// so it is left to a poll that finds nothing. Kernel 6.1 does not report the error state.
void check_wqe_taken(siw_qp &qp, std::uint32_t index) noexcept {
    if (!is_pending(qp.sq.ring.wqe(index)))
        return;
    siw_cq &cq = to_siw_cq(qp.verbs.qp.send_cq);
    std::atomic_ref(qp.may_be_in_error).exchange(true);
    // Ordering: sets has_qp_to_check, then loads the CQ's flags; req_notify_cq() stores the flags,
    // then loads has_qp_to_check. All are sequentially consistent, so one of them queries the QP.
    std::atomic_ref(cq.has_qp_to_check).store(true);
    if (!cq.is_armed())
        return;
    // The consumer may wait for an event instead of polling.
    check_qp_for_error(qp);
}

/// Queries the QPs with this send CQ that may be in error, and moves those that are to ERR.
void check_qps_for_error(siw_cq &cq) noexcept {
    std::atomic_ref(cq.has_qp_to_check).store(false);
    to_siw_context(cq.verbs.cq.context).qps.visit_all([&cq](siw_qp &qp) {
        if (qp.verbs.qp.send_cq == &cq.verbs.cq && std::atomic_ref(qp.may_be_in_error).load())
            check_qp_for_error(qp);
    });
}

siw_qp *create_unlisted_qp(ibv_pd *pd, ibv_qp_init_attr &attr) noexcept {
    ibv_qp *const ibqp = create_qp_and_map(pd, &attr);
    return ibqp != nullptr ? &to_siw_qp(ibqp) : nullptr;
}

int destroy_unlisted_qp(siw_qp &qp) noexcept {
    if (const int error = libibverbs().ibv_cmd_destroy_qp(&qp.verbs.qp))
        return error;
    free_qp(qp);
    return 0;
}

void fill_qp_ops(abi::verbs_context_ops &ops) noexcept {
    ops.create_qp = create_listed_qp;
    ops.create_qp_ex = create_listed_qp_ex;
    ops.modify_qp = modify_qp;
    ops.query_qp = query_qp;
    ops.destroy_qp = destroy_qp;
}

} // namespace coherdma::provider::siw

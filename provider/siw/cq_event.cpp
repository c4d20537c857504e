// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Events for the WQEs that this provider flushes. Only the kernel can raise an event, and it does
// so when it completes a WQE. So force_cq_event() creates a QP with one receive and moves it to
// ERR, where the kernel completes the receive. A poll discards that completion, for which the CQ
// has room (create_cq_with_room()). The QP remains until then, so that no other QP has its number,
// and is destroyed before the next event or with the CQ.
//
// A thread that raises an event waits for the kernel only, so it may hold any other lock.

#include "objects.hpp"

#include <cerrno>

namespace coherdma::provider::siw {
namespace {

[[gnu::cold]] bool is_full(const cq_ring &ring) noexcept {
    for (std::uint32_t i = 0; i <= ring.mem.index_mask; ++i)
        if (std::atomic_ref(ring.cqe(i).flags).load(std::memory_order_relaxed) == 0)
            return false;
    return true;
}

[[gnu::cold]] void log_failure(int error) noexcept {
    abi::verbs_log(abi::log_level::error, "siw: no event for flushed requests: errno %d", error);
}

/// No consumer has it: the address of a member. A QP that is being destroyed may have had the
/// number of the event's, so its completions are told by their wr_id.
std::uint64_t event_wr_id(siw_cq &cq) noexcept {
    return reinterpret_cast<std::uintptr_t>(&cq.has_event_cqe);
}

/// Destroys the QP of an earlier event, whose completion was polled. False: it is still there.
[[gnu::cold]] bool destroy_last_event_qp(siw_cq &cq) noexcept {
    if (cq.event_qp != nullptr && destroy_unlisted_qp(*cq.event_qp) != 0)
        return false;
    cq.event_qp = nullptr;
    return true;
}

/// In a PD of the context: the consumer may deallocate its own.
[[gnu::cold]] siw_qp *create_event_qp(siw_cq &cq) noexcept {
    siw_context &context = to_siw_context(cq.verbs.cq.context);
    if (context.event_pd == nullptr)
        context.event_pd = ibv_alloc_pd(&context.verbs);
    if (context.event_pd == nullptr)
        return nullptr;
    ibv_qp_init_attr attr = {};
    attr.send_cq = attr.recv_cq = &cq.verbs.cq;
    attr.cap = {.max_send_wr = 1,
                .max_recv_wr = 1,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = 0};
    attr.qp_type = IBV_QPT_RC;
    return create_unlisted_qp(context.event_pd, attr);
}

/// Has the kernel complete a receive of the QP.
[[gnu::cold]] void complete_receive(siw_cq &cq, siw_qp &qp) noexcept {
    ibv_recv_wr wr = {}, *bad_wr = nullptr;
    wr.wr_id = event_wr_id(cq);
    post_recvs(qp.rq.ring, qp.rq_lock, qp.max_recv_sge, &wr, &bad_wr);
    cq.event_qp_num = qp.verbs.qp.qp_num;
    // Ordering: before the system call, so that a poll that finds the completion knows it.
    std::atomic_ref(cq.has_event_cqe).store(true);
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_ERR;
    wqe_header &wqe = qp.rq.ring.wqe(0);
    if (const int error = modify_qp_cmd(&qp.verbs.qp, &attr, IBV_QP_STATE)) {
        log_failure(error);
        store_flags(wqe, 0); // the kernel shall not complete it when it destroys the QP
        std::atomic_ref(cq.has_event_cqe).store(false);
    } else if (is_pending(wqe)) {
        // The CQ has become full. Then the consumer has completions to poll.
        std::atomic_ref(cq.has_event_cqe).store(false);
    }
}

} // namespace

/// Has the kernel raise an event if the CQ is armed. Called after announce_wqe_to_flush().
// It is not needed while the CQ has a completion that was there when the consumer armed it: the
// consumer polls after that, as verbs require, until the CQ is empty, and then finds the WQEs.
[[gnu::cold]] void force_cq_event(siw_cq &cq) noexcept {
    if (cq.verbs.cq.channel == nullptr || !cq.is_armed())
        return;
    const std::lock_guard guard(to_siw_context(cq.verbs.cq.context).event_mutex);
    const int saved_errno = errno;
    if (cq.is_armed() && !std::atomic_ref(cq.has_event_cqe).load() && !is_full(cq.ring) &&
        destroy_last_event_qp(cq)) {
        cq.event_qp = create_event_qp(cq);
        if (cq.event_qp != nullptr)
            complete_receive(cq, *cq.event_qp);
        else
            log_failure(errno);
    }
    errno = saved_errno;
}

/// Called by a poll for a failed completion, with the CQ's lock held. Returns whether it is that of
/// the QP of an event.
bool take_event_cqe(siw_cq &cq, std::uint32_t qp_num, std::uint64_t wr_id) noexcept {
    const std::atomic_ref has_event_cqe(cq.has_event_cqe);
    if (!has_event_cqe.load() || cq.event_qp_num != qp_num || wr_id != event_wr_id(cq))
        return false;
    has_event_cqe.store(false);
    // Ordering: before this poll looks for announced WQEs. force_cq_event() finds false, or this
    // poll finds the WQE that was announced before.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return true;
}

/// Before the kernel destroys the CQ.
void destroy_event_qp(siw_cq &cq) noexcept {
    const std::lock_guard guard(to_siw_context(cq.verbs.cq.context).event_mutex);
    destroy_last_event_qp(cq);
}

} // namespace coherdma::provider::siw

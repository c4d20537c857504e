// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// CQs. A poll reads the CQEs of the ring, then flushes the WQEs of the SQs and RQs on the flush
// list, whose QPs are in error.

#include "common/create.hpp"
#include "objects.hpp"

#include <array>
#include <bit>
#include <cerrno>

namespace coherdma::provider::siw {
namespace {

int destroy_cq(ibv_cq *ibcq) noexcept {
    destroy_event_qp(to_siw_cq(ibcq));
    if (const int error = libibverbs().ibv_cmd_destroy_cq(ibcq))
        return error;
    siw_cq &cq = to_siw_cq(ibcq);
    cq.ring.mem.unmap();
    std::free(&cq);
    return 0;
}

/// Maps the ring of a CQ that the kernel created; if that fails, has the kernel destroy the CQ. The
/// flags that arm the CQ (siw_cq_ctrl) follow the CQEs.
siw_cq *init_cq_or_destroy(calloc_ptr<siw_cq> &cq, ibv_context *context,
                           const siw_uresp_create_cq &resp) noexcept {
    cq_ring &ring = cq->ring;
    if (const int error = ring.mem.map(context->cmd_fd, resp.cq_key, resp.num_cqe, sizeof(siw_cqe),
                                       sizeof(siw_cq_ctrl))) {
        cq->verbs.cq.context = context;
        libibverbs().ibv_cmd_destroy_cq(&cq->verbs.cq);
        return fail_with(error);
    }
    const std::size_t num_cqe = std::size_t{ring.mem.index_mask} + 1;
    ring.ctrl = reinterpret_cast<siw_cq_ctrl *>(ring.mem.addr + num_cqe * sizeof(siw_cqe));
    return cq.release();
}

/// A CQ with events has a CQE that the consumer does not know of, for cq_event.cpp. The kernel
/// makes the number of CQEs a power of two.
ibv_cq_ex *create_cq_with_room(ibv_context *context, ibv_cq_init_attr_ex *attr) noexcept {
    ibv_cq_init_attr_ex kernel_attr = *attr;
    const bool has_events = attr->channel != nullptr;
    kernel_attr.cqe += has_events && std::has_single_bit(attr->cqe);
    ibv_cq_ex *const cq =
        create_cq_ex<siw_cq, siw_uresp_create_cq, init_cq_or_destroy>(context, &kernel_attr);
    if (cq != nullptr)
        cq->cqe -= has_events;
    return cq;
}

// Calls check_qps_for_error() if the last check was at least 50 ms ago. Returns whether it did.
bool check_qps_for_error_if_due(siw_cq &cq) noexcept {
    constexpr std::uint64_t interval_ns = NS_PER_S / 20;
    const std::uint64_t now_ns = get_time_ns();
    if (now_ns - cq.last_check_ns < interval_ns)
        return false;
    cq.last_check_ns = now_ns;
    check_qps_for_error(cq);
    return true;
}

// Arms the CQ for the next completion, also if solicited_only: the kernel treats no receive as
// solicited. The consumer polls after this call, as the verbs require, and so finds a completion
// from before it. Ordering: see check_wqe_taken() and announce_wqe_to_flush().
int req_notify_cq(ibv_cq *ibcq, int) noexcept {
    siw_cq &cq = to_siw_cq(ibcq);
    std::atomic_ref(cq.ring.ctrl->flags).store(SIW_NOTIFY_SOLICITED | SIW_NOTIFY_NEXT_COMPLETION);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (std::atomic_ref(cq.has_qp_to_check).load())
        check_qps_for_error(cq);
    return 0;
}

constexpr std::array WC_STATUS{
    IBV_WC_SUCCESS,        IBV_WC_LOC_LEN_ERR,    IBV_WC_LOC_PROT_ERR,
    IBV_WC_LOC_QP_OP_ERR,  IBV_WC_WR_FLUSH_ERR,   IBV_WC_BAD_RESP_ERR,
    IBV_WC_LOC_ACCESS_ERR, IBV_WC_REM_ACCESS_ERR, IBV_WC_REM_INV_REQ_ERR};
static_assert(WC_STATUS.size() == SIW_WC_GENERAL_ERR);

ibv_wc_status to_wc_status(std::uint32_t siw_status) noexcept {
    return siw_status < WC_STATUS.size() ? WC_STATUS[siw_status] : IBV_WC_GENERAL_ERR;
}

constexpr auto WC_OPCODE = [] {
    std::array<ibv_wc_opcode, 16> opcodes = {};
    opcodes.fill(IBV_WC_SEND);
    opcodes[SIW_OP_WRITE] = IBV_WC_RDMA_WRITE;
    opcodes[SIW_OP_READ] = opcodes[SIW_OP_READ_LOCAL_INV] = IBV_WC_RDMA_READ;
    opcodes[SIW_OP_RECEIVE] = IBV_WC_RECV;
    return opcodes;
}();

ibv_wc_opcode to_wc_opcode(std::uint8_t siw_opcode) noexcept {
    return WC_OPCODE[siw_opcode % WC_OPCODE.size()];
}

/// Converts a CQE.
void to_wc(const siw_cqe &cqe, ibv_wc_status status, ibv_wc &wc) noexcept {
    wc = {};
    wc.wr_id = cqe.id;
    wc.status = status;
    wc.opcode = to_wc_opcode(cqe.opcode);
    wc.byte_len = cqe.bytes;
    wc.qp_num = static_cast<std::uint32_t>(cqe.qp_id);
}

enum class flush_result { NONE, FLUSHED, TAKEN_BY_KERNEL };

/// Completes the next WQE of a QP in error with IBV_WC_WR_FLUSH_ERR, unless the kernel has taken
/// it.
// siw_qp_llp_close() flushes WQEs, too. It loads the flags of a WQE, writes its CQE, and clears the
// flags: if this function flushes the WQE in between, it completes twice. Nothing that a program
// can ask tells whether the kernel is about to do that.
flush_result flush_wqe(siw_wq &wq, ibv_wc &wc) noexcept {
    const std::uint32_t prod = std::atomic_ref(wq.ring.prod).load(std::memory_order_acquire);
    // A post that withdraws its WQEs sets prod back, and forth if they are to be flushed.
    if (static_cast<std::int32_t>(prod - wq.flush_index) <= 0)
        return flush_result::NONE;
    const std::uint32_t index = wq.flush_index++;
    if (!wq.ring.is_wqe_pending(index))
        return flush_result::TAKEN_BY_KERNEL;
    wqe_header &wqe = wq.ring.wqe(index);
    wc = {};
    wc.wr_id = wqe.id;
    wc.status = IBV_WC_WR_FLUSH_ERR;
    wc.opcode = wq.is_rq ? IBV_WC_RECV : to_wc_opcode(wqe.opcode);
    wc.qp_num = wq.qp_num;
    store_flags(wqe, 0);
    return flush_result::FLUSHED;
}

/// Flushes the next WQE of the queues from next_to_flush on.
flush_result flush_next_wqe(siw_cq &cq, ibv_wc &wc) noexcept {
    for (; cq.next_to_flush != nullptr; cq.next_to_flush = cq.next_to_flush->next)
        if (const flush_result result = flush_wqe(*cq.next_to_flush, wc);
            result != flush_result::NONE)
            return result;
    return flush_result::NONE;
}

/// Reads the next CQE. Returns false if there is none.
bool poll_cqe(siw_cq &cq, ibv_wc &wc) noexcept {
    cq_ring &ring = cq.ring;
    while ((ring.load_flags(ring.cons) & SIW_WQE_VALID) != 0) {
        siw_cqe &cqe = ring.cqe(ring.cons++);
        to_wc(cqe, to_wc_status(cqe.status), wc);
        std::atomic_ref(cqe.flags).store(0, std::memory_order_release);
        if (wc.status == IBV_WC_SUCCESS)
            return true;
        if (take_event_cqe(cq, wc.qp_num, wc.wr_id))
            continue;
        move_qp_num_to_err(to_siw_context(cq.verbs.cq.context), wc.qp_num);
        return true;
    }
    return false;
}

/// Sets prev of the queues before which others were added. Called with the CQ's lock held.
// Queues are added at the head, so those without it are the first ones: each is visited once.
[[gnu::cold]] void set_prev_of_added(siw_wq *wq) noexcept {
    for (; wq != nullptr && wq->next != nullptr && wq->next->prev != wq; wq = wq->next)
        wq->next->prev = wq;
}

/// The QP of the SQ or RQ, which completes to this CQ, is being destroyed. Called with the CQ's
/// lock held. Other threads add queues at the head, without the lock.
// The time does not grow with the number of queues on the list: tests/bench/peer_death.
[[gnu::cold]] void remove_from_flush_list(siw_cq &cq, const siw_wq &wq) noexcept {
    if (cq.next_to_flush == &wq)
        cq.next_to_flush = wq.next;
    std::atomic_ref flush_list(cq.flush_list);
    siw_wq *head = flush_list.load();
    if (head == &wq && flush_list.compare_exchange_strong(head, wq.next))
        return;
    set_prev_of_added(head);
    if (wq.prev == nullptr)
        return; // not on the list
    wq.prev->next = wq.next;
    if (wq.next != nullptr)
        wq.next->prev = wq.prev;
}

// Polls CQEs that may have failed, and flushes WQEs, after the first count completions. The caller
// holds the lock; this function releases it.
[[gnu::noinline]] int poll_cq_slow_and_unlock(siw_cq &cq, int num_entries, ibv_wc *wc,
                                              int count) noexcept {
    while (count < num_entries && (count == 0 ? poll_first(cq, *wc) : poll_one(cq, wc[count])))
        ++count;
    cq.lock.unlock();
    trace::poll(cq.verbs.cq.handle, count);
    return count;
}

[[gnu::noinline, gnu::cold]] int poll_cq_contended(siw_cq &cq, int num_entries,
                                                   ibv_wc *wc) noexcept {
    cq.lock.lock();
    return poll_cq_slow_and_unlock(cq, num_entries, wc, 0);
}

// The fast path, for an uncontended lock and CQEs without errors. Fewer than num_entries say that
// the CQ is empty, so poll_cq_slow_and_unlock() continues after a CQE with an error, and flushes
// WQEs; if there is none of these, it checks QPs for an error.
int poll_cq(ibv_cq *ibcq, int num_entries, ibv_wc *wc) noexcept {
    siw_cq &cq = to_siw_cq(ibcq);
    if (!cq.lock.try_lock()) [[unlikely]]
        return poll_cq_contended(cq, num_entries, wc);
    // Local copies stay in registers: for the compiler, a store to *wc may change the members.
    auto *const cqes = reinterpret_cast<siw_cqe *>(cq.ring.mem.addr);
    const std::uint32_t mask = cq.ring.mem.index_mask;
    std::uint32_t cons = cq.ring.cons;
    int count = 0;
    for (; count < num_entries; ++count) {
        siw_cqe &cqe = cqes[cons & mask];
        const std::uint8_t flags = std::atomic_ref(cqe.flags).load(std::memory_order_acquire);
        if (flags != SIW_WQE_VALID || cqe.status != SIW_WC_SUCCESS)
            break;
        to_wc(cqe, IBV_WC_SUCCESS, wc[count]);
        std::atomic_ref(cqe.flags).store(0, std::memory_order_release);
        ++cons;
    }
    cq.ring.cons = cons;
    if (count < num_entries && (cq.ring.load_flags(cons) != 0 || cq.needs_slow_poll())) [[unlikely]]
        return poll_cq_slow_and_unlock(cq, num_entries, wc, count);
    cq.lock.unlock();
    trace::poll(ibcq->handle, count);
    return count;
}

} // namespace

/// poll_one(); if there is no completion, checks the QPs for an error, at most every 50 ms, and
/// polls again.
bool poll_first(siw_cq &cq, ibv_wc &wc) noexcept {
    if (poll_one(cq, wc))
        return true;
    return std::atomic_ref(cq.has_qp_to_check).load(std::memory_order_relaxed) &&
           check_qps_for_error_if_due(cq) && poll_one(cq, wc);
}

/// Reads the next CQE, else flushes the next WQE of the SQs and RQs on the flush list. Returns
/// false if there is neither.
// It continues where it was, so that a peer that takes many QPs with it costs a time that grows
// with their number, not with its square; and goes through the list only if a WQE was announced.
// A WQE is flushed after the CQEs of those in front, which the kernel writes before a queue is
// listed, or before it clears the flags of a WQE: after each of these, CQEs are looked for again.
bool poll_one(siw_cq &cq, ibv_wc &wc) noexcept {
    std::atomic_ref may_have_wqe(cq.may_have_wqe_to_flush);
    bool is_list_new = false;
    while (!poll_cqe(cq, wc)) {
        const flush_result result = flush_next_wqe(cq, wc);
        if (result == flush_result::FLUSHED)
            break;
        if (result == flush_result::TAKEN_BY_KERNEL)
            continue;
        if (is_list_new || !may_have_wqe.load(std::memory_order_relaxed))
            return false;
        // Ordering: acquire, for announce_wqe_to_flush(). A later one sets it again.
        may_have_wqe.exchange(false, std::memory_order_acquire);
        cq.next_to_flush = std::atomic_ref(cq.flush_list).load(std::memory_order_acquire);
        is_list_new = true;
    }
    if (is_list_new)
        cq.announce_wqe_to_flush(); // there may be more
    return true;
}

/// The QP was destroyed: removes its CQEs that have not been polled, so that others have room, and
/// does not flush its WQEs. The caller holds the lock.
// The others move to the places behind, from the last on. The kernel writes to no VALID CQE.
void discard_cqes(siw_cq &cq, const siw_qp &qp) noexcept {
    if (qp.verbs.qp.send_cq == &cq.verbs.cq)
        remove_from_flush_list(cq, qp.sq);
    if (qp.verbs.qp.recv_cq == &cq.verbs.cq)
        remove_from_flush_list(cq, qp.rq);
    cq_ring &ring = cq.ring;
    std::uint32_t end = ring.cons;
    while (end - ring.cons <= ring.mem.index_mask && (ring.load_flags(end) & SIW_WQE_VALID) != 0)
        ++end;
    std::uint32_t first_kept = end;
    while (end != ring.cons) {
        const siw_cqe &cqe = ring.cqe(--end);
        const auto qp_num = static_cast<std::uint32_t>(cqe.qp_id);
        if (qp_num != qp.verbs.qp.qp_num)
            ring.cqe(--first_kept) = cqe;
        else
            take_event_cqe(cq, qp_num, cqe.id);
    }
    for (; ring.cons != first_kept; ++ring.cons)
        std::atomic_ref(ring.cqe(ring.cons).flags).store(0, std::memory_order_release);
}

void fill_cq_ops(abi::verbs_context_ops &ops) noexcept {
    ops.create_cq = create_cq<create_cq_with_room>;
    ops.create_cq_ex = create_cq_with_room;
    ops.destroy_cq = destroy_cq;
    ops.poll_cq = poll_cq;
    ops.req_notify_cq = req_notify_cq;
}

} // namespace coherdma::provider::siw

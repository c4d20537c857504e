// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "live_rxe.hpp"

#include "ring_access.hpp"
#include "schedule.hpp"

#include <bit>

namespace schedule {
namespace {

using fake::rxe::rxe_queue_buf;

/// What the kernel leaves in entries that are its own.
constexpr int GARBAGE = 0xa5;

std::uint32_t next_index(const rxe_queue_buf &buf, std::uint32_t index) {
    return (index + 1) & buf.index_mask;
}
std::size_t entry_size(const rxe_queue_buf &buf) {
    return std::size_t{1} << buf.log2_elem_size;
}

/// Of those that the programs use, as wr_to_wc_opcode() has it.
std::uint32_t wc_opcode_for(std::uint32_t wr_opcode) {
    return wr_opcode == IBV_WR_SEND ? IBV_WC_SEND : IBV_WC_RDMA_WRITE;
}

} // namespace

unsigned char *live_rxe_kernel::entry(std::size_t ring_index, std::uint32_t index) const {
    rxe_queue_buf &buf = ring(ring_index);
    return reinterpret_cast<unsigned char *>(&buf + 1) + index * entry_size(buf);
}

// The kernel has its own index of a ring in its own memory.
live_rxe_kernel::entry_range live_rxe_kernel::cqes(std::size_t ring_index) const {
    const rxe_queue_buf &buf = ring(ring_index);
    return {.begin = load_acquire(buf.consumer_index), .end = buf.producer_index};
}
live_rxe_kernel::entry_range live_rxe_kernel::wqes(std::size_t ring_index) const {
    const rxe_queue_buf &buf = ring(ring_index);
    return {.begin = buf.consumer_index, .end = load_acquire(buf.producer_index)};
}
std::uint32_t live_rxe_kernel::count(std::size_t ring_index, const entry_range &range) const {
    return (range.end - range.begin) & ring(ring_index).index_mask;
}

std::uint32_t live_rxe_kernel::num_cqes(const ibv_cq &cq) const {
    const std::size_t ring_index = cqs_.at(cq.handle).ring;
    const rxe_queue_buf &buf = ring(ring_index);
    return count(ring_index, {.begin = load_acquire(buf.consumer_index),
                              .end = load_acquire(buf.producer_index)});
}

int live_rxe_kernel::answer(const fake::command &cmd) {
    const std::lock_guard lock(mutex_);
    if (const int refusal = check(cmd))
        return refusal;
    const std::size_t first_new_ring = num_rings();
    if (const int result = rxe_kernel::answer(cmd))
        return result;
    act(cmd, first_new_ring);
    return 0;
}

/// What the kernel refuses.
int live_rxe_kernel::check(const fake::command &cmd) {
    switch (cmd.number) {
    case IB_USER_VERBS_CMD_POST_SEND: // rxe_post_send()
        return qps_.at(cmd.read<ib_uverbs_post_send>().qp_handle).state < IBV_QPS_RTS ? EINVAL : 0;
    case IB_USER_VERBS_CMD_RESIZE_CQ: { // rxe_cq_chk_attr()
        const auto req = cmd.read<ib_uverbs_resize_cq>();
        const std::size_t cq_ring = cqs_.at(req.cq_handle).ring;
        return req.cqe < count(cq_ring, cqes(cq_ring)) ? EINVAL : 0;
    }
    case IB_USER_VERBS_CMD_MODIFY_SRQ: { // resize_finish()
        const auto req = cmd.read<ib_uverbs_modify_srq>();
        const std::uint32_t num_slots = std::bit_ceil(req.max_wr + 1);
        const std::size_t srq_ring = srqs_.at(req.srq_handle);
        return (req.attr_mask & IBV_SRQ_MAX_WR) != 0 && num_slots <= count(srq_ring, wqes(srq_ring))
                   ? EINVAL
                   : 0;
    }
    case IB_USER_VERBS_CMD_MODIFY_QP: { // ib_modify_qp_is_ok(), of which only ERR is checked
        const auto req = cmd.read<ib_uverbs_modify_qp>();
        return (req.attr_mask & IBV_QP_STATE) != 0 && req.qp_state != IBV_QPS_ERR &&
                       req.qp_state != IBV_QPS_RESET && qps_.at(req.qp_handle).state == IBV_QPS_ERR
                   ? EINVAL
                   : 0;
    }
    case IB_USER_VERBS_CMD_QUERY_QP: // rxe_qp_to_attr()
        state = qps_.at(cmd.read<ib_uverbs_query_qp>().qp_handle).state;
        return 0;
    default:
        return 0;
    }
}

/// What it does besides the response.
void live_rxe_kernel::act(const fake::command &cmd, std::size_t first_new_ring) {
    const auto new_handle = [this] {
        return objects.rbegin()->first; // handles ascend
    };
    switch (cmd.number) {
    case IB_USER_VERBS_CMD_CREATE_CQ:
    case IB_USER_VERBS_EX_CMD_CREATE_CQ | fake::extended:
        cqs_[new_handle()] = {.ring = first_new_ring, .is_armed = false};
        break;
    case IB_USER_VERBS_CMD_CREATE_SRQ:
        srqs_[new_handle()] = first_new_ring;
        break;
    case IB_USER_VERBS_CMD_CREATE_QP:
        add_qp(cmd.read<ib_uverbs_create_qp>());
        break;
    case IB_USER_VERBS_EX_CMD_CREATE_QP | fake::extended:
        add_qp(cmd.read<ib_uverbs_ex_create_qp>());
        break;
    case IB_USER_VERBS_CMD_RESIZE_CQ: { // rxe_cq_resize_queue()
        created_cq &cq = cqs_.at(cmd.read<ib_uverbs_resize_cq>().cq_handle);
        move_entries(cq.ring, cqes(cq.ring), first_new_ring);
        cq.ring = first_new_ring;
        break;
    }
    case IB_USER_VERBS_CMD_MODIFY_SRQ: // rxe_srq_from_attr()
        if (num_rings() != first_new_ring) {
            std::size_t &srq_ring = srqs_.at(cmd.read<ib_uverbs_modify_srq>().srq_handle);
            move_entries(srq_ring, wqes(srq_ring), first_new_ring);
            srq_ring = first_new_ring;
        }
        break;
    case IB_USER_VERBS_CMD_REQ_NOTIFY_CQ: // rxe_req_notify_cq()
        cqs_.at(cmd.read<ib_uverbs_req_notify_cq>().cq_handle).is_armed = true;
        break;
    case IB_USER_VERBS_CMD_MODIFY_QP: { // rxe_qp_from_attr()
        const auto req = cmd.read<ib_uverbs_modify_qp>();
        if ((req.attr_mask & IBV_QP_STATE) != 0)
            modify_qp(qps_.at(req.qp_handle), static_cast<ibv_qp_state>(req.qp_state));
        break;
    }
    case IB_USER_VERBS_CMD_POST_SEND:
        process_sq(qps_.at(cmd.read<ib_uverbs_post_send>().qp_handle));
        break;
    case IB_USER_VERBS_CMD_DESTROY_QP: // rxe_destroy_qp() drops the WQEs; the CQEs remain
        std::erase_if(qps_, [this](const auto &qp) { return objects.count(qp.first) == 0; });
        break;
    default:
        break;
    }
}

template <class create_command>
void live_rxe_kernel::add_qp(const create_command &cmd) {
    const std::uint32_t handle = objects.rbegin()->first; // handles ascend
    const bool has_srq = cmd.is_srq != 0;
    // fake_rxe makes the ring of the RQ, if any, and then that of the SQ.
    qps_[handle] = {.qp_num = find_qp_num(handle),
                    .send_cq = cmd.send_cq_handle,
                    .recv_cq = cmd.recv_cq_handle,
                    .sq_ring = num_rings() - 1,
                    .rq_ring = has_srq ? 0 : num_rings() - 2,
                    .srq = has_srq ? cmd.srq_handle : 0,
                    .sq_end = 0,
                    .state = IBV_QPS_RESET,
                    .is_flush_due = false,
                    .signals_all = cmd.sq_sig_all != 0,
                    .is_rc = cmd.qp_type == IBV_QPT_RC};
}

void live_rxe_kernel::modify_qp(created_qp &qp, ibv_qp_state new_state) {
    qp.state = new_state;
    if (new_state == IBV_QPS_ERR)
        move_to_err(qp);
    if (new_state != IBV_QPS_RESET)
        return;
    qp.is_flush_due = false;
    // rxe_qp_reset(): flush_recv_queue() and flush_send_queue() complete nothing.
    rxe_queue_buf &sq = ring(qp.sq_ring);
    qp.sq_end = load_acquire(sq.producer_index);
    store_release(sq.consumer_index, qp.sq_end);
    fill_entry(entry(qp.sq_ring, 0), 0, (std::size_t{sq.index_mask} + 1) * entry_size(sq));
    if (qp.srq == 0)
        store_release(ring(qp.rq_ring).consumer_index,
                      load_acquire(ring(qp.rq_ring).producer_index));
}

/// rxe_qp_error(), which schedules the tasks that flush.
void live_rxe_kernel::move_to_err(created_qp &qp) {
    qp.state = IBV_QPS_ERR;
    if (flushes_later)
        qp.is_flush_due = true;
    else
        flush(qp);
}

/// flush_recv_queue(), which leaves an SRQ alone, and flush_send_queue(), also of requests without
/// a doorbell.
void live_rxe_kernel::flush(created_qp &qp) {
    qp.is_flush_due = false;
    while (qp.srq == 0 && complete_receive(qp, qp.rq_ring, IBV_WC_WR_FLUSH_ERR)) {
    }
    for (;;) {
        const entry_range requests = wqes(qp.sq_ring);
        if (requests.begin == requests.end)
            return;
        complete_requests(qp, requests.end, IBV_WC_WR_FLUSH_ERR);
    }
}

/// rxe_requester(). In ERR it has the completer flush the SQ, and not the RQ.
void live_rxe_kernel::process_sq(created_qp &qp) {
    qp.sq_end = load_acquire(ring(qp.sq_ring).producer_index);
    if (qp.state == IBV_QPS_ERR)
        complete_requests(qp, qp.sq_end, IBV_WC_WR_FLUSH_ERR);
    else if (completes_requests)
        complete_requests(qp, qp.sq_end, IBV_WC_SUCCESS);
}

/// do_complete() of the completer: the request leaves the SQ, and then its CQE is written.
void live_rxe_kernel::complete_requests(created_qp &qp, std::uint32_t end, ibv_wc_status status) {
    rxe_queue_buf &sq = ring(qp.sq_ring);
    while (sq.consumer_index != end) {
        unsigned char *const addr = entry(qp.sq_ring, sq.consumer_index);
        fake::rxe::rxe_send_wqe wqe;
        read_entry(&wqe, addr, sizeof wqe);
        fill_entry(addr, GARBAGE, sizeof wqe);
        store_release(sq.consumer_index, next_index(sq, sq.consumer_index));
        if (!qp.signals_all && (wqe.wr.send_flags & IBV_SEND_SIGNALED) == 0 &&
            status == IBV_WC_SUCCESS)
            continue;
        fake::rxe::rxe_cqe cqe{};
        cqe.wr_id = wqe.wr.wr_id;
        cqe.status = status;
        cqe.opcode = wc_opcode_for(wqe.wr.opcode);
        cqe.qp_num = qp.qp_num;
        post_cqe(cqs_.at(qp.send_cq), cqe);
    }
}

/// do_complete() of the responder, for the next receive of an RQ or SRQ. False: there is none.
bool live_rxe_kernel::complete_receive(created_qp &qp, std::size_t wq_ring, ibv_wc_status status) {
    rxe_queue_buf &wq = ring(wq_ring);
    if (const entry_range receives = wqes(wq_ring); receives.begin == receives.end)
        return false;
    unsigned char *const addr = entry(wq_ring, wq.consumer_index);
    fake::rxe::rxe_recv_wqe wqe;
    read_entry(&wqe, addr, sizeof wqe);
    fill_entry(addr, GARBAGE, sizeof wqe);
    store_release(wq.consumer_index, next_index(wq, wq.consumer_index));
    fake::rxe::rxe_cqe cqe{};
    cqe.wr_id = wqe.wr_id;
    cqe.status = status;
    cqe.opcode = IBV_WC_RECV;
    cqe.qp_num = qp.qp_num;
    post_cqe(cqs_.at(qp.recv_cq), cqe);
    return true;
}

/// rxe_cq_post(). Before, the kernel writes to the entries that are its own.
void live_rxe_kernel::post_cqe(created_cq &cq, const fake::rxe::rxe_cqe &cqe) {
    rxe_queue_buf &buf = ring(cq.ring);
    const std::uint32_t end = next_index(buf, buf.producer_index);
    const std::uint32_t consumer_index = load_acquire(buf.consumer_index);
    require(end != consumer_index, "a CQ overflows");
    for (std::uint32_t i = buf.producer_index; next_index(buf, i) != consumer_index;
         i = next_index(buf, i))
        fill_entry(entry(cq.ring, i), GARBAGE, entry_size(buf));
    write_entry(entry(cq.ring, buf.producer_index), &cqe, sizeof cqe);
    store_release(buf.producer_index, end);
    if (cq.is_armed) {
        cq.is_armed = false;
        raise_event();
    }
}

/// resize_finish(): to the begin of the new ring.
void live_rxe_kernel::move_entries(std::size_t old_ring, const entry_range &moved,
                                   std::size_t new_ring) {
    rxe_queue_buf &old_buf = ring(old_ring), &new_buf = ring(new_ring);
    std::uint32_t new_index = 0;
    for (std::uint32_t i = moved.begin; i != moved.end; i = next_index(old_buf, i))
        write_entry(entry(new_ring, new_index++), entry(old_ring, i),
                    std::min(entry_size(old_buf), entry_size(new_buf)));
    store_release(new_buf.producer_index, new_index);
}

void live_rxe_kernel::run_tasks() {
    const std::lock_guard lock(mutex_);
    for (auto &[handle, qp] : qps_)
        if (qp.is_flush_due)
            flush(qp);
}

void live_rxe_kernel::acknowledge(const ibv_qp &ibqp) {
    const std::lock_guard lock(mutex_);
    created_qp &qp = qps_.at(ibqp.handle);
    if (qp.state == IBV_QPS_RTS)
        complete_requests(qp, qp.sq_end, IBV_WC_SUCCESS);
}

/// rxe_responder()
bool live_rxe_kernel::receive(const ibv_qp &ibqp, ibv_wc_status status) {
    const std::lock_guard lock(mutex_);
    created_qp &qp = qps_.at(ibqp.handle);
    const bool is_ready = qp.state == IBV_QPS_RTR || qp.state == IBV_QPS_RTS;
    if (!is_ready || !complete_receive(qp, qp.srq != 0 ? srqs_.at(qp.srq) : qp.rq_ring, status))
        return false;
    if (status != IBV_WC_SUCCESS && qp.is_rc)
        move_to_err(qp);
    return true;
}

} // namespace schedule

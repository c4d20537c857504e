// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "live_siw.hpp"

#include "schedule.hpp"

namespace schedule {

void live_siw_kernel::complete(std::size_t cq_ring, const siw_cqe &cqe) {
    add_cqe(cq_ring, cqe);
    if (cq_ctrl(cq_ring).flags == 0)
        return;
    cq_ctrl(cq_ring).flags = 0;
    raise_event();
}

int live_siw_kernel::answer_driver(const fake::command &cmd) {
    enter_kernel();
    const std::size_t first_ring = num_rings();
    if (const int result = siw_kernel::answer_driver(cmd))
        return result;
    if (cmd.number == IB_USER_VERBS_CMD_CREATE_CQ) {
        const std::uint32_t handle = objects.rbegin()->first; // handles ascend
        cq_rings_[handle] = first_ring;
    } else if (cmd.number == IB_USER_VERBS_CMD_CREATE_QP) {
        ib_uverbs_create_qp_resp response;
        std::memcpy(&response, reinterpret_cast<const void *>(cmd.response), sizeof response);
        qps_[response.qp_handle] = {
            .qp_num = response.qpn,
            .num_taken = 0,
            .num_sent = 0,
            .sq_ring = first_ring,
            .rq_ring = first_ring + 1,
            .send_cq_ring = cq_rings_.at(cmd.read<ib_uverbs_create_qp>().send_cq_handle),
            .cq_ring = cq_rings_.at(cmd.read<ib_uverbs_create_qp>().recv_cq_handle),
            .has_rq = cmd.read<ib_uverbs_create_qp>().is_srq == 0,
            .is_connected = true};
    } else if (cmd.number == IB_USER_VERBS_CMD_POST_SEND && takes_requests) {
        constexpr unsigned SELDOM = 4;
        if (refuses_doorbells && choose(SELDOM) == 1)
            return ENOTCONN;
        created_qp &qp = qps_.at(cmd.read<ib_uverbs_post_send>().qp_handle);
        if (qp.is_connected) // siw_post_send() does nothing in ERR, and succeeds
            process_sq(qp);
    } else if (cmd.number == IB_USER_VERBS_CMD_MODIFY_QP &&
               cmd.read<ib_uverbs_modify_qp>().qp_state == IBV_QPS_ERR) {
        created_qp &qp = qps_.at(cmd.read<ib_uverbs_modify_qp>().qp_handle);
        const std::lock_guard lock(state_lock_);
        if (qp.is_connected) // siw_qp_modify() does nothing in ERR
            flush_rq(qp);
        qp.is_connected = false;
    }
    return 0;
}

void live_siw_kernel::close_connection(const ibv_qp &qp) {
    created_qp &closed = qps_.at(qp.handle);
    const std::lock_guard lock(state_lock_);
    if (!closed.is_connected)
        return;
    closed.is_connected = false;
    state = IBV_QPS_ERR;
    flush_sq(closed);
    flush_rq(closed);
}

namespace {

template <class wqe_type>
siw_cqe make_cqe(const wqe_type &wqe, std::uint8_t opcode, std::uint16_t status,
                 std::uint32_t qp_num) {
    siw_cqe cqe{};
    cqe.id = wqe.id;
    cqe.opcode = opcode;
    cqe.status = status;
    cqe.qp_id = qp_num;
    return cqe;
}

} // namespace

void live_siw_kernel::process_sq(created_qp &qp) {
    for (; (sqe(qp.sq_ring, qp.num_sent).flags & SIW_WQE_VALID) != 0; ++qp.num_sent) {
        siw_sqe &taken = sqe(qp.sq_ring, qp.num_sent);
        const siw_cqe cqe = make_cqe(taken, taken.opcode, SIW_WC_SUCCESS, qp.qp_num);
        const bool is_signaled = (taken.flags & SIW_WQE_SIGNALLED) != 0;
        taken.flags = 0;
        if (is_signaled)
            complete(qp.send_cq_ring, cqe);
    }
}

void live_siw_kernel::flush_sq(created_qp &qp) {
    while (sqe(qp.sq_ring, qp.num_sent).flags != 0) {
        siw_sqe &taken = sqe(qp.sq_ring, qp.num_sent++);
        taken.flags = 0;
        complete(qp.send_cq_ring, make_cqe(taken, taken.opcode, SIW_WC_WR_FLUSH_ERR, qp.qp_num));
    }
}

void live_siw_kernel::flush_rq(created_qp &qp) {
    while (qp.has_rq && rqe(qp.rq_ring, qp.num_taken).flags != 0) {
        siw_rqe &taken = rqe(qp.rq_ring, qp.num_taken++);
        taken.flags = 0;
        complete(qp.cq_ring, make_cqe(taken, SIW_OP_RECEIVE, SIW_WC_WR_FLUSH_ERR, qp.qp_num));
    }
}

} // namespace schedule

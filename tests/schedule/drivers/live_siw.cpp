// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "live_siw.hpp"

#include "ring_access.hpp"
#include "schedule.hpp"

#include <cstddef>

namespace schedule {
namespace {

/// The flags are in the middle of a CQE, which is written before and behind them.
constexpr std::size_t SIZE_BEFORE_FLAGS = offsetof(siw_cqe, flags);
constexpr std::size_t SIZE_BEHIND_FLAGS = sizeof(siw_cqe) - offsetof(siw_cqe, opcode);

} // namespace

// siw_sqe_complete(). Its store of VALID is a plain one, of which provider/siw/ring.hpp says what
// it means; here it has the order that the driver can rely on at best.
void live_siw_kernel::complete(std::size_t cq_ring, const siw_cqe &cqe) {
    std::unique_lock lock(cq_lock_);
    siw_cqe &written = next_cqe(cq_ring);
    require(load_acquire(written.flags) == 0, "a CQ overflows");
    write_entry(&written, &cqe, SIZE_BEFORE_FLAGS);
    write_entry(&written.opcode, &cqe.opcode, SIZE_BEHIND_FLAGS);
    store_release(written.flags, static_cast<std::uint8_t>(cqe.flags | SIW_WQE_VALID));
    full_barrier(); // smp_store_mb() of the flags of the WQE
    if (load_acquire(cq_ctrl(cq_ring).flags) == 0)
        return;
    store_release(cq_ctrl(cq_ring).flags, 0U);
    lock.unlock();
    raise_event();
}

int live_siw_kernel::answer_driver(const fake::command &cmd) {
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
        const std::lock_guard lock(state_lock_);
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
    if (!closed.is_connected && !closes_after_err)
        return;
    closed.is_connected = false;
    state = IBV_QPS_ERR;
    flush_sq(closed);
    flush_rq(closed);
}

namespace {

siw_cqe make_cqe(std::uint64_t id, std::uint8_t opcode, std::uint16_t status,
                 std::uint32_t qp_num) {
    siw_cqe cqe{};
    cqe.id = id;
    cqe.opcode = opcode;
    cqe.status = status;
    cqe.qp_id = qp_num;
    return cqe;
}

/// Of memory that the driver writes to.
template <class type>
type read(const type &shared) {
    type result;
    read_entry(&result, &shared, sizeof result);
    return result;
}

} // namespace

void live_siw_kernel::take_request(std::size_t sq_ring, std::uint32_t number) {
    store_release(sqe(sq_ring, number).flags, std::uint16_t{0});
    full_barrier(); // smp_store_mb()
}

std::optional<std::uint64_t> live_siw_kernel::take_receive(std::size_t ring_index,
                                                           std::uint32_t number) {
    siw_rqe &taken = rqe(ring_index, number);
    if (load_acquire(taken.flags) == 0)
        return {};
    const siw_rqe receive = read(taken);
    store_release(taken.flags, std::uint16_t{0});
    return receive.id;
}

// siw_activate_tx_from_sq()
void live_siw_kernel::process_sq(created_qp &qp) {
    for (; (load_acquire(sqe(qp.sq_ring, qp.num_sent).flags) & SIW_WQE_VALID) != 0; ++qp.num_sent) {
        const siw_sqe taken = read(sqe(qp.sq_ring, qp.num_sent));
        take_request(qp.sq_ring, qp.num_sent);
        if ((taken.flags & SIW_WQE_SIGNALLED) != 0)
            complete(qp.send_cq_ring, make_cqe(taken.id, taken.opcode, SIW_WC_SUCCESS, qp.qp_num));
    }
}

void live_siw_kernel::flush_sq(created_qp &qp) {
    for (; load_acquire(sqe(qp.sq_ring, qp.num_sent).flags) != 0; ++qp.num_sent) {
        const siw_sqe &flushed = sqe(qp.sq_ring, qp.num_sent);
        complete(qp.send_cq_ring,
                 make_cqe(read(flushed.id), read(flushed.opcode), SIW_WC_WR_FLUSH_ERR, qp.qp_num));
        take_request(qp.sq_ring, qp.num_sent);
    }
}

void live_siw_kernel::flush_rq(created_qp &qp) {
    for (; qp.has_rq && load_acquire(rqe(qp.rq_ring, qp.num_taken).flags) != 0; ++qp.num_taken) {
        siw_rqe &flushed = rqe(qp.rq_ring, qp.num_taken);
        complete(qp.cq_ring,
                 make_cqe(read(flushed.id), SIW_OP_RECEIVE, SIW_WC_WR_FLUSH_ERR, qp.qp_num));
        store_release(flushed.flags, std::uint16_t{0});
    }
}

} // namespace schedule

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What programs over the siw driver share: the objects of a device, and calls that must not fail.
#pragma once

#include "live_siw.hpp"
#include "schedule.hpp"

#include <array>
#include <atomic>
#include <cstdint>

namespace siw_programs {

using schedule::require;

// The rings in the order of creation; a QP has two.
constexpr std::size_t CQ_RING = 0, CQ_EX_RING = 1, EVENT_CQ_RING = 1;
constexpr std::uint64_t FAILED_ID = 1, FLUSHED_ID = 2;

/// A program's objects on a device.
class device {
  public:
    schedule::live_siw_kernel kernel;
    ibv_context *context = kernel.open();
    ibv_pd *pd = ibv_alloc_pd(context);
    ibv_cq *cq = ibv_create_cq(context, 8, nullptr, nullptr, 0);

    device() = default;
    device(const device &) = delete;
    device &operator=(const device &) = delete;
    ~device() {
        require(ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0 &&
                    ibv_close_device(context) == 0,
                "an object is not destroyed");
    }

    ibv_qp *create_qp() { return create_qp(cq); }
    ibv_qp *create_qp(ibv_cq *qp_cq) { return create_qp(qp_cq, qp_cq); }
    ibv_qp *create_qp(ibv_cq *send_cq, ibv_cq *recv_cq) {
        return create_qp(make_attr(send_cq, recv_cq));
    }
    ibv_qp *create_qp(ibv_qp_init_attr attr) {
        ibv_qp *const qp = ibv_create_qp(pd, &attr);
        require(qp != nullptr, "a QP is not created");
        return qp;
    }
    static ibv_qp_init_attr make_attr(ibv_cq *send_cq, ibv_cq *recv_cq) {
        ibv_qp_init_attr attr{};
        attr.send_cq = send_cq;
        attr.recv_cq = recv_cq;
        attr.cap = {.max_send_wr = 4,
                    .max_recv_wr = 2,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
        attr.qp_type = IBV_QPT_RC;
        return attr;
    }
    /// The kernel completes a request of a QP.
    void complete(const ibv_qp &qp, std::uint64_t wr_id, std::uint16_t status = SIW_WC_SUCCESS,
                  std::size_t cq_ring = CQ_RING) {
        siw_cqe cqe{};
        cqe.id = wr_id;
        cqe.opcode = SIW_OP_WRITE;
        cqe.status = status;
        cqe.qp_id = qp.qp_num;
        kernel.complete(cq_ring, cqe);
    }
    bool is_moved_to_err(const ibv_qp &qp) const {
        for (const fake::command &cmd : kernel.commands)
            if (cmd.number == IB_USER_VERBS_CMD_MODIFY_QP &&
                cmd.read<ib_uverbs_modify_qp>().qp_handle == qp.handle)
                return true;
        return false;
    }
};

inline void post_recv(ibv_qp *qp, std::uint64_t wr_id) {
    ibv_sge sge{};
    ibv_recv_wr wr{}, *bad_wr = nullptr;
    wr.wr_id = wr_id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    require(ibv_post_recv(qp, &wr, &bad_wr) == 0, "a receive is not posted");
}
inline int try_post_send(ibv_qp *qp, std::uint64_t wr_id, unsigned send_flags = 0) {
    ibv_sge sge{};
    ibv_send_wr wr{}, *bad_wr = nullptr;
    wr.wr_id = wr_id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = send_flags;
    return ibv_post_send(qp, &wr, &bad_wr);
}
inline void post_send(ibv_qp *qp, std::uint64_t wr_id, unsigned send_flags = 0) {
    require(try_post_send(qp, wr_id, send_flags) == 0, "a request is not posted");
}
inline void move_to_err(ibv_qp *qp) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    require(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0, "a QP is not moved to ERR");
}
inline void destroy(ibv_qp *qp) {
    require(ibv_destroy_qp(qp) == 0, "a QP is not destroyed");
}
/// Polls all; each must be of the QP. Returns how many.
inline int poll_all(ibv_cq *cq, const ibv_qp &qp) {
    ibv_wc wc{};
    int count = 0;
    for (; ibv_poll_cq(cq, 1, &wc) == 1; ++count)
        require(wc.qp_num == qp.qp_num && wc.wr_id != 0, "a completion of another QP is polled");
    return count;
}

/// A completion queue with events, whose completions are counted.
class event_cq {
  public:
    event_cq(device &device, std::uint64_t expected_id, int num_cqe = 8)
        : device_(device)
        , expected_id_(expected_id)
        , channel_(ibv_create_comp_channel(device.context))
        , cq(ibv_create_cq(device.context, num_cqe, nullptr, channel_, 0)) {}
    event_cq(const event_cq &) = delete;
    event_cq &operator=(const event_cq &) = delete;
    ~event_cq() {
        require(ibv_destroy_cq(cq) == 0 && ibv_destroy_comp_channel(channel_) == 0,
                "an object is not destroyed");
    }

    /// Polls a completion, which must be of the QP. False: there is none.
    bool poll(const ibv_qp &qp) {
        ibv_wc wc{};
        if (ibv_poll_cq(cq, 1, &wc) == 0)
            return false;
        require(wc.qp_num == qp.qp_num && wc.wr_id != 0, "a completion of another QP is polled");
        if (wc.wr_id == expected_id_) {
            require(!is_completed_.exchange(true), "a request completes twice");
            device_.kernel.raise_event(); // a thread may wait, though another has polled
        }
        return true;
    }
    /// Polls and waits for events as a program does, until the expected completion was polled.
    void wait_for_completion(const ibv_qp &qp) {
        for (;;) {
            const int num_events = device_.kernel.num_events();
            require(ibv_req_notify_cq(cq, 0) == 0, "the CQ is not armed");
            while (poll(qp)) {
            }
            if (is_completed_)
                return;
            device_.kernel.wait_for_event(num_events);
        }
    }

  private:
    device &device_;
    std::uint64_t expected_id_;
    std::atomic<bool> is_completed_ = false;
    ibv_comp_channel *channel_;

  public:
    ibv_cq *const cq;
};

} // namespace siw_programs

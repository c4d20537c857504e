// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The objects that programs over the siw driver share.
#pragma once

#include "live_siw.hpp"
#include "schedule.hpp"
#include "verbs.hpp"

#include <array>
#include <atomic>
#include <cstdint>

namespace siw_programs {

using namespace schedule::verbs;
using schedule::require;

// The rings in the order of creation; a QP has two.
constexpr std::size_t CQ_RING = 0, CQ_EX_RING = 1, EVENT_CQ_RING = 1;
constexpr std::uint64_t FAILED_ID = 1, FLUSHED_ID = 2;

/// A program's objects on a device.
class device : public schedule::device<schedule::live_siw_kernel> {
  public:
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

/// A CQ whose completions raise events.
class channel_cq {
  public:
    explicit channel_cq(const device &device, int num_cqe = 8)
        : channel_(ibv_create_comp_channel(device.context))
        , cq(ibv_create_cq(device.context, num_cqe, nullptr, channel_, 0)) {}
    channel_cq(const channel_cq &) = delete;
    channel_cq &operator=(const channel_cq &) = delete;
    ~channel_cq() {
        require(ibv_destroy_cq(cq) == 0 && ibv_destroy_comp_channel(channel_) == 0,
                "an object is not destroyed");
    }
    void arm() const { require(ibv_req_notify_cq(cq, 0) == 0, "the CQ is not armed"); }

  private:
    ibv_comp_channel *channel_;

  public:
    ibv_cq *const cq;
};

/// The same, whose completions are counted.
class event_cq : public channel_cq {
  public:
    event_cq(device &device, std::uint64_t expected_id, int num_cqe = 8)
        : channel_cq(device, num_cqe)
        , device_(device)
        , expected_id_(expected_id) {}

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
            arm();
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
};

} // namespace siw_programs

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The fake rxe kernel of the unit tests, which also takes WQEs, completes and flushes them, raises
// events, and moves what is in a ring to a new one. It is not compiled for the scheduler: other
// threads go on before and after a command, and when it accesses a ring (ring_access.hpp); they
// wait if they have a command. What is named in live_rxe.cpp are the functions of the kernel in
// drivers/infiniband/sw/rxe.
#pragma once

#include "fake_rxe.hpp"
#include "kernel_events.hpp"

#include <map>
#include <mutex>

namespace schedule {

class live_rxe_kernel : public fake::rxe_kernel, public kernel_events {
  public:
    live_rxe_kernel() { shares_mappings = true; }

    bool completes_requests = true; ///< at a doorbell; otherwise acknowledge() does

    bool flushes_later = false; ///< not in the command that moves a QP to ERR, but in run_tasks()

    int answer(const fake::command &cmd) override;

    /// The kernel's work queue flushes the QPs that are due.
    void run_tasks();

    // -- what comes from the network, between commands

    /// The peer acknowledges all requests that were there at the last doorbell.
    void acknowledge(const ibv_qp &qp);
    /// A message arrives. False: there is no receive for it. With a status other than success the
    /// receive fails, and an RC QP enters ERR.
    bool receive(const ibv_qp &qp, ibv_wc_status status = IBV_WC_SUCCESS);

    /// That are in the CQ.
    std::uint32_t num_cqes(const ibv_cq &cq) const;

  private:
    struct created_cq {
        std::size_t ring;
        bool is_armed;
    };
    struct created_qp {
        std::uint32_t qp_num, send_cq, recv_cq; ///< CQs: handles
        std::size_t sq_ring, rq_ring;           ///< rq_ring: of a QP with an SRQ, not used
        std::uint32_t srq;                      ///< a handle; 0: none
        std::uint32_t sq_end;                   ///< producer index of the SQ at the last doorbell
        ibv_qp_state state;
        bool is_flush_due, signals_all, is_rc;
    };

    struct entry_range {
        std::uint32_t begin, end; ///< indices, from one up to the other
    };

    int check(const fake::command &cmd);
    void act(const fake::command &cmd, std::size_t first_new_ring);
    template <class create_command>
    void add_qp(const create_command &cmd);
    void modify_qp(created_qp &qp, ibv_qp_state state);
    void process_sq(created_qp &qp);
    void complete_requests(created_qp &qp, std::uint32_t end, ibv_wc_status status);
    bool complete_receive(created_qp &qp, std::size_t wq_ring, ibv_wc_status status);
    void move_to_err(created_qp &qp);
    void flush(created_qp &qp);
    void post_cqe(created_cq &cq, const fake::rxe::rxe_cqe &cqe);
    void move_entries(std::size_t old_ring, const entry_range &moved, std::size_t new_ring);
    entry_range cqes(std::size_t ring_index) const;
    entry_range wqes(std::size_t ring_index) const;
    std::uint32_t count(std::size_t ring_index, const entry_range &range) const;
    unsigned char *entry(std::size_t ring_index, std::uint32_t index) const;

    std::map<std::uint32_t, created_cq> cqs_;   ///< by handle, as the others
    std::map<std::uint32_t, std::size_t> srqs_; ///< their rings
    std::map<std::uint32_t, created_qp> qps_;
    std::mutex mutex_; ///< held by a command, and by what comes from the network
};

} // namespace schedule

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The fake siw kernel of the unit tests, which also completes and flushes requests and raises
// events. It is not compiled for the scheduler: other threads go on only before a command, when it
// accesses a ring (ring_access.hpp), and after an event.
#pragma once

#include "fake_siw.hpp"
#include "kernel_events.hpp"

#include <map>
#include <mutex>
#include <optional>

namespace schedule {

class live_siw_kernel : public fake::siw_kernel, public kernel_events {
  public:
    live_siw_kernel() { shares_mappings = true; }

    /// Adds a CQE, and raises an event if the CQ is armed, as siw_sqe_complete() does.
    void complete(std::size_t cq_ring, const siw_cqe &cqe);
    /// The peer ends the connection: the kernel moves the QP to ERR and flushes its queues, as
    /// siw_qp_llp_close(). A QP that is in ERR: only if closes_after_err.
    void close_connection(const ibv_qp &qp);

    /// The kernel takes a request, of which no CQE comes.
    void take_request(std::size_t sq_ring, std::uint32_t number);
    /// The kernel takes a receive, if it is there. Returns its wr_id.
    std::optional<std::uint64_t> take_receive(std::size_t ring_index, std::uint32_t number);

    /// The program has not dropped the connection when it has moved the QP to ERR, as after
    /// siw_qp_nextstate_from_term(). Then a WQE may complete twice: see flush_wqe().
    bool closes_after_err = false;
    bool takes_requests = false; ///< at a doorbell; otherwise the SQ stands still
    bool refuses_doorbells =
        false; ///< some, with ENOTCONN, as while another thread modifies the QP

  protected:
    int answer_driver(const fake::command &cmd) override;

  private:
    struct created_qp {
        std::uint32_t qp_num, num_taken, num_sent; ///< receives and requests
        std::size_t sq_ring, rq_ring, send_cq_ring, cq_ring;
        bool has_rq, is_connected;
    };

    /// The kernel takes the requests that are VALID, in order, and completes those that are
    /// signaled, as siw_qp_sq_process() does.
    void process_sq(created_qp &qp);
    void flush_sq(created_qp &qp);

    /// The kernel flushes the RQ of a QP that is moved to ERR. It leaves the SQ alone, as
    /// siw_qp_nextstate_from_term() does if nothing is being transmitted.
    void flush_rq(created_qp &qp);

    std::map<std::uint32_t, std::size_t> cq_rings_; ///< by handle
    std::map<std::uint32_t, created_qp> qps_;       ///< by handle
    std::mutex state_lock_; ///< of all QPs, held while the kernel works on a queue
    std::mutex cq_lock_;    ///< of all CQs
};

} // namespace schedule

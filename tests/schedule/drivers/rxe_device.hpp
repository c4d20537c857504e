// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The objects that programs over the rxe driver share, and what they know of the completions.
#pragma once

#include "live_rxe.hpp"
#include "schedule.hpp"
#include "verbs.hpp"
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <thread>

namespace rxe_programs {

using namespace schedule::verbs;
using schedule::require;
using schedule::verbs::destroy; // and those below

/// A wr_id tells the stream, whose requests complete in order, and the number therein. No wr_id
/// is 0.
constexpr unsigned IDS_PER_STREAM = 4, NUM_STREAMS = 6;
constexpr std::uint64_t make_id(unsigned stream, unsigned number = 0) {
    return std::uint64_t{stream + 1} * IDS_PER_STREAM + number;
}

/// The requests that were completed, by all threads.
class completed_requests {
  public:
    void add(std::uint64_t wr_id) {
        require(wr_id >= make_id(0) && wr_id < make_id(NUM_STREAMS),
                "a completion of no request is polled");
        require((ids_.fetch_or(1U << wr_id) & 1U << wr_id) == 0, "a request completes twice");
    }
    unsigned count() const { return static_cast<unsigned>(std::popcount(ids_.load())); }
    bool has(std::uint64_t wr_id) const { return (ids_ & 1U << wr_id) != 0; }

  private:
    std::atomic<std::uint32_t> ids_ = 0;
};

/// One thread's polls of a CQ.
class poller {
  public:
    poller(ibv_cq *cq, completed_requests &completed)
        : cq_(cq)
        , completed_(completed) {}

    void check(std::uint64_t wr_id) {
        completed_.add(wr_id);
        std::uint64_t &last = last_ids_[wr_id / IDS_PER_STREAM];
        require(wr_id > last, "a request completes before an earlier one");
        last = wr_id;
    }
    /// Polls up to MAX_WC completions. Returns how many.
    int poll() {
        std::array<ibv_wc, MAX_WC> wcs;
        const int count = ibv_poll_cq(cq_, MAX_WC, wcs.data());
        require(count >= 0, "a poll fails");
        for (int i = 0; i < count; ++i)
            check(wcs[static_cast<std::size_t>(i)].wr_id);
        return count;
    }
    void poll_all() {
        while (poll() == MAX_WC) {
        }
    }
    /// Polls and waits for events as a program does, until so many requests have completed.
    void wait_for(unsigned num_completed, schedule::live_rxe_kernel &kernel) {
        for (;;) {
            const int num_events = kernel.num_events();
            require(ibv_req_notify_cq(cq_, 0) == 0, "the CQ is not armed");
            poll_all();
            if (completed_.count() == num_completed)
                return;
            kernel.wait_for_event(num_events);
        }
    }

    static constexpr int MAX_WC = 2;

  private:
    ibv_cq *cq_;
    completed_requests &completed_;
    std::array<std::uint64_t, NUM_STREAMS + 1> last_ids_{};
};

inline void modify(ibv_qp *qp, ibv_qp_state state) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    require(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0, "a QP is not modified");
}

struct qp_options {
    ibv_srq *srq = nullptr;
    ibv_qp_type type = IBV_QPT_RC;
};

/// A program's objects on a device. QPs signal all requests.
class device : public schedule::device<schedule::live_rxe_kernel> {
  public:
    completed_requests completed;
    poller cq_poller{cq, completed};

    ibv_qp *create_qp(const qp_options &options = {}) { return create_qp(pd, cq, options); }
    ibv_qp *create_qp(ibv_pd *qp_pd, ibv_cq *qp_cq, const qp_options &options = {}) {
        ibv_qp_init_attr attr{};
        attr.send_cq = attr.recv_cq = qp_cq;
        attr.srq = options.srq;
        attr.cap = {.max_send_wr = 6,
                    .max_recv_wr = 6,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = 0};
        attr.qp_type = options.type;
        attr.sq_sig_all = 1;
        ibv_qp *const qp = ibv_create_qp(qp_pd, &attr);
        require(qp != nullptr, "a QP is not created");
        modify(qp, IBV_QPS_RTS);
        return qp;
    }
    ibv_srq *create_srq() {
        ibv_srq_init_attr attr{};
        attr.attr = {.max_wr = 3, .max_sge = 1, .srq_limit = 0};
        ibv_srq *const srq = ibv_create_srq(pd, &attr);
        require(srq != nullptr, "an SRQ is not created");
        return srq;
    }
    ibv_cq_ex *create_cq_ex(std::uint32_t flags = 0) {
        ibv_cq_init_attr_ex attr{};
        attr.cqe = 8;
        attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
        attr.flags = flags;
        ibv_cq_ex *const cq_ex = ibv_create_cq_ex(context, &attr);
        require(cq_ex != nullptr, "a CQ is not created");
        return cq_ex;
    }
    void wait_for(unsigned num_completed) { cq_poller.wait_for(num_completed, kernel); }
    bool is_moved_to_err(const ibv_qp &qp) const {
        for (const fake::command &cmd : kernel.commands) {
            const auto modify_cmd = cmd.read<ib_uverbs_modify_qp>();
            if (cmd.number == IB_USER_VERBS_CMD_MODIFY_QP && modify_cmd.qp_handle == qp.handle &&
                modify_cmd.qp_state == IBV_QPS_ERR)
                return true;
        }
        return false;
    }
};

inline void destroy(ibv_cq *cq) {
    require(ibv_destroy_cq(cq) == 0, "a CQ is not destroyed");
}
inline void destroy(ibv_srq *srq) {
    require(ibv_destroy_srq(srq) == 0, "an SRQ is not destroyed");
}
inline void post_sends(ibv_qp *qp, unsigned stream, unsigned count) {
    for (unsigned i = 0; i < count; ++i)
        post_send(qp, make_id(stream, i));
}
inline void post_recvs(ibv_qp *qp, unsigned stream, unsigned count) {
    for (unsigned i = 0; i < count; ++i)
        post_recv(qp, make_id(stream, i));
}
inline void post_srq_recvs(ibv_srq *srq, unsigned stream, unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
        ibv_sge sge{};
        ibv_recv_wr wr{}, *bad_wr = nullptr;
        wr.wr_id = make_id(stream, i);
        wr.sg_list = &sge;
        wr.num_sge = 1;
        require(ibv_post_srq_recv(srq, &wr, &bad_wr) == 0, "a receive is not posted");
    }
}
/// So many messages arrive, each as soon as there is a receive for it.
inline void receive(device &device, const ibv_qp &qp, unsigned count) {
    for (unsigned i = 0; i < count;) {
        if (device.kernel.receive(qp))
            ++i;
        else
            std::this_thread::yield();
    }
}

} // namespace rxe_programs

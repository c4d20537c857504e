// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The fake device's verbs objects.
#pragma once

#include <cstdint>
#include <deque>
#include <infiniband/verbs.h>
#include <vector>

namespace fake {

struct fake_device;

struct fake_context : ibv_context {
    fake_device *dev = nullptr;
    std::deque<ibv_async_event> async_events;
    int refs = 0; ///< objects of it
};

struct fake_pd : ibv_pd {
    int refs = 0;
};

struct fake_mr : ibv_mr {
    std::uint64_t iova = 0; ///< address of the MR in work requests
    unsigned access = 0;
    int num_bound_mws = 0;
};

struct fake_mw : ibv_mw {
    fake_mr *mr = nullptr; ///< nullptr: not bound
    ibv_mw_bind_info bind_info = {};
};

struct fake_ah : ibv_ah {
    ibv_ah_attr attr = {};
};

/// Destroying the object waits until all its events are acknowledged.
struct ack_count {
    unsigned reported = 0, acknowledged = 0;
    bool all_acked() const { return reported == acknowledged; }
};

struct fake_cq;
struct fake_channel : ibv_comp_channel {
    std::deque<fake_cq *> events;
    int refs = 0;
};

struct fake_qp;
struct queued_cqe {
    ibv_wc wc;
    fake_qp *qp;             ///< nullptr: destroyed
    std::uint64_t wqe_index; ///< of the work request in its queue
    bool is_send;
};
enum class notify_mode { none, solicited, any };
struct fake_cq : ibv_cq {
    std::deque<queued_cqe> entries;
    notify_mode notify = notify_mode::none;
    int refs = 0;
    bool overflowed = false;
    ack_count completions, errors;
};

struct recv_wqe {
    std::uint64_t wr_id;
    std::vector<ibv_sge> sge_list;
};

struct fake_srq : ibv_srq {
    std::deque<recv_wqe> recv_queue;
    ibv_srq_attr attr = {};
    int refs = 0;
    ack_count errors;
};

struct send_wqe {
    ibv_send_wr wr; ///< its sg_list is sge_list
    std::vector<ibv_sge> sge_list;
    std::vector<unsigned char> inline_data; ///< if IBV_SEND_INLINE
    std::uint64_t index;
};

struct fake_qp : ibv_qp {
    ibv_qp_cap cap = {};
    bool all_signaled = false;
    unsigned access = 0;
    std::uint32_t dest_qp_num = 0;
    ibv_qp_attr attr = {}; ///< as set by ibv_modify_qp
    std::deque<send_wqe> send_queue;
    std::deque<recv_wqe> recv_queue;
    std::uint64_t num_posted = 0, num_completed = 0; ///< send WRs; completing frees an SQ entry
    std::uint64_t num_recvs_used = 0, num_recvs_completed = 0; ///< receive WRs
    ack_count errors;
};

} // namespace fake

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a played device keeps of each object of verbs.
#pragma once

#include <cstdint>
#include <deque>
#include <infiniband/verbs.h>
#include <vector>

namespace played {

struct hardware;

struct context : ibv_context {
    hardware *of = nullptr;
};

struct pd : ibv_pd {
    int users = 0;
};

struct mr : ibv_mr {
    std::uint64_t begin = 0; ///< in the addresses that requests use
    unsigned access = 0;
    int windows = 0; ///< that are bound to it
};

struct mw : ibv_mw {
    mr *over = nullptr; ///< nullptr: it is not bound
    ibv_mw_bind_info range = {};
};

struct ah : ibv_ah {
    ibv_ah_attr attr = {};
};

/// Of anything whose end waits until what was told of it is acknowledged.
struct told {
    unsigned reported = 0, acknowledged = 0;
    bool settled() const { return reported == acknowledged; }
};

struct cq;
struct channel : ibv_comp_channel {
    std::deque<cq *> events;
    int users = 0;
};

struct qp;
struct completion {
    ibv_wc wc;
    qp *of;             ///< nullptr: it is gone
    std::uint64_t turn; ///< of the request in its queue
    bool of_request;
};
enum class arming { no, solicited, any };
struct cq : ibv_cq {
    std::deque<completion> entries;
    arming armed = arming::no;
    int users = 0;
    bool overflown = false;
    told completions, errors;
};

struct receive {
    std::uint64_t wr_id;
    std::vector<ibv_sge> list;
};

struct srq : ibv_srq {
    std::deque<receive> receives;
    ibv_srq_attr attr = {};
    int users = 0;
    told errors;
};

struct request {
    ibv_send_wr wr; ///< its list is below
    std::vector<ibv_sge> list;
    std::vector<unsigned char> words; ///< of an inline one
    std::uint64_t turn;
};

struct qp : ibv_qp {
    ibv_qp_cap cap = {};
    bool all_signaled = false;
    unsigned access = 0;
    std::uint32_t peer = 0; ///< number of
    ibv_qp_attr attr = {};  ///< as it was told
    std::deque<request> requests;
    std::deque<receive> receives;
    std::uint64_t posted = 0, retired = 0; ///< requests; a slot is free when it is retired
    std::uint64_t taken = 0, returned = 0; ///< receives
    told errors;
};

} // namespace played

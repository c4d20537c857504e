// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Queue pairs: their life, their states, and what is posted to them.

#include "fabric.hpp"
#include "manager.hpp"
#include "operations.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

using namespace played;

namespace {

bool over(std::uint32_t wanted, int most) {
    return wanted > static_cast<std::uint32_t>(most);
}

/// What a step needs; -1: there is no such step.
int needed(const qp &one, ibv_qp_state to) {
    if (to == IBV_QPS_ERR || to == IBV_QPS_RESET)
        return IBV_QP_STATE;
    const bool datagrams = one.qp_type == IBV_QPT_UD;
    if (net().of(one.context).is_iwarp())
        return -1; // the kernel's own
    if (to == IBV_QPS_INIT && one.state == IBV_QPS_RESET)
        return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
               (datagrams ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
    if (to == IBV_QPS_INIT && one.state == IBV_QPS_INIT)
        return IBV_QP_STATE;
    if (to == IBV_QPS_RTR && one.state == IBV_QPS_INIT)
        return datagrams ? IBV_QP_STATE
                         : IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                               IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    if (to == IBV_QPS_RTS && one.state == IBV_QPS_RTR)
        return datagrams ? IBV_QP_STATE | IBV_QP_SQ_PSN
                         : IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                               IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
    return -1;
}

void take(qp &one, const ibv_qp_attr &attr, int mask) {
    if ((mask & IBV_QP_ACCESS_FLAGS) != 0)
        one.access = attr.qp_access_flags;
    if ((mask & IBV_QP_DEST_QPN) != 0)
        one.peer = attr.dest_qp_num;
    const unsigned access = one.attr.qp_access_flags;
    const ibv_qp_attr before = one.attr;
    one.attr = attr;
    if ((mask & IBV_QP_ACCESS_FLAGS) == 0)
        one.attr.qp_access_flags = access;
    if ((mask & IBV_QP_RNR_RETRY) == 0)
        one.attr.rnr_retry = before.rnr_retry;
    if ((mask & IBV_QP_MIN_RNR_TIMER) == 0)
        one.attr.min_rnr_timer = before.min_rnr_timer;
    if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) == 0)
        one.attr.max_dest_rd_atomic = before.max_dest_rd_atomic;
    if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) == 0)
        one.attr.max_rd_atomic = before.max_rd_atomic;
    if ((mask & IBV_QP_PORT) == 0)
        one.attr.port_num = before.port_num;
}

void forget_completions(cq &of, const qp &gone) {
    for (auto each = of.entries.begin(); each != of.entries.end();)
        if (each->of != &gone)
            ++each;
        else if (net().purges)
            each = of.entries.erase(each);
        else
            (each++)->of = nullptr;
}

void forget_news(const qp &gone) {
    hardware &of = net().of(gone.context);
    for (auto each = of.news.begin(); each != of.news.end();) {
        const bool of_pairs = each->event_type != IBV_EVENT_CQ_ERR &&
                              each->event_type != IBV_EVENT_SRQ_ERR &&
                              each->event_type != IBV_EVENT_SRQ_LIMIT_REACHED;
        if (of_pairs && each->element.qp == &gone) {
            each = of.news.erase(each);
            untick(of.open.async_fd);
        } else {
            ++each;
        }
    }
}

int refusal(const qp &to, const ibv_send_wr &wanted) {
    const bool iwarp = net().of(to.context).is_iwarp();
    if (to.state != IBV_QPS_RTS && to.state != IBV_QPS_ERR && !(iwarp && to.state == IBV_QPS_SQD))
        return EINVAL;
    if (to.posted - to.retired >= to.cap.max_send_wr)
        return ENOMEM;
    if (wanted.num_sge < 0 || static_cast<unsigned>(wanted.num_sge) > to.cap.max_send_sge)
        return EINVAL;
    if (iwarp && (wanted.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
                  wanted.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
                  wanted.opcode == IBV_WR_RDMA_WRITE_WITH_IMM))
        return EINVAL;
    if ((wanted.send_flags & IBV_SEND_INLINE) == 0)
        return 0;
    if (wanted.opcode == IBV_WR_RDMA_READ || wanted.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
        wanted.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
        return EINVAL;
    std::uint64_t length = 0;
    for (int at = 0; at != wanted.num_sge; ++at)
        length += wanted.sg_list[at].length;
    return length > to.cap.max_inline_data ? EINVAL : 0;
}

int post(qp &to, const ibv_send_wr &wanted) {
    if (const int error = refusal(to, wanted))
        return error;
    request made = {wanted, {wanted.sg_list, wanted.sg_list + wanted.num_sge}, {}, ++to.posted};
    if ((wanted.send_flags & IBV_SEND_INLINE) != 0)
        for (const ibv_sge &each : made.list) {
            const auto *const from = reinterpret_cast<const unsigned char *>(each.addr);
            made.words.insert(made.words.end(), from, from + each.length);
        }
    net().heard.push_back({&to, nullptr, false, wanted, made.list});
    to.requests.push_back(std::move(made));
    net().work();
    return 0;
}

} // namespace

namespace played {

int post_send(ibv_qp *on, ibv_send_wr *list, ibv_send_wr **refused) {
    give_order(reinterpret_cast<const void *>(list->wr_id));
    const entered call;
    *refused = list;
    if (list->next != nullptr)
        die("ibv_post_send: a list");
    if (const int error = fault("ibv_post_send"))
        return error;
    return post(*static_cast<qp *>(on), *list);
}

int post_recv(ibv_qp *on, ibv_recv_wr *list, ibv_recv_wr **refused) {
    give_order(reinterpret_cast<const void *>(list->wr_id));
    const entered call;
    *refused = list;
    if (const int error = fault("ibv_post_recv"))
        return error;
    auto &to = *static_cast<qp *>(on);
    if (to.srq != nullptr || (to.state == IBV_QPS_RESET && !net().of(to.context).is_iwarp()) ||
        list->num_sge < 0 || static_cast<unsigned>(list->num_sge) > to.cap.max_recv_sge)
        return EINVAL;
    if (to.taken + to.receives.size() - to.returned >= to.cap.max_recv_wr)
        return ENOMEM;
    const std::vector<ibv_sge> segments(list->sg_list, list->sg_list + list->num_sge);
    ibv_send_wr as_sent = {};
    as_sent.wr_id = list->wr_id;
    as_sent.num_sge = list->num_sge;
    net().heard.push_back({on, nullptr, true, as_sent, segments});
    to.receives.push_back({list->wr_id, segments});
    net().work();
    return 0;
}

int bind_mw(ibv_qp *by, ibv_mw *window, ibv_mw_bind *what) {
    give_order(reinterpret_cast<const void *>(what->wr_id));
    const entered call;
    if (const int error = fault("ibv_bind_mw"))
        return error;
    ibv_send_wr wanted = {};
    wanted.wr_id = what->wr_id;
    wanted.opcode = IBV_WR_BIND_MW;
    wanted.send_flags = what->send_flags;
    wanted.bind_mw.mw = window;
    wanted.bind_mw.rkey = ibv_inc_rkey(window->rkey);
    wanted.bind_mw.bind_info = what->bind_info;
    const int error = post(*static_cast<qp *>(by), wanted);
    if (error == 0)
        window->rkey = wanted.bind_mw.rkey;
    return error;
}

} // namespace played

extern "C" {

ibv_qp *ibv_create_qp(ibv_pd *in, ibv_qp_init_attr *wanted) {
    const entered call;
    if (const int error = fault("ibv_create_qp")) {
        errno = error;
        return nullptr;
    }
    const hardware &on = net().of(in->context);
    ibv_qp_cap &cap = wanted->cap;
    if (over(cap.max_send_wr, on.limits.max_qp_wr) || over(cap.max_recv_wr, on.limits.max_qp_wr) ||
        over(cap.max_send_sge, on.limits.max_sge) || over(cap.max_recv_sge, on.limits.max_sge) ||
        cap.max_inline_data > on.max_inline || wanted->send_cq == nullptr ||
        wanted->recv_cq == nullptr) {
        errno = EINVAL;
        return nullptr;
    }
    auto *const made = new qp;
    made->context = in->context;
    made->qp_context = wanted->qp_context;
    made->pd = in;
    made->send_cq = wanted->send_cq;
    made->recv_cq = wanted->recv_cq;
    made->srq = wanted->srq;
    made->qp_type = wanted->qp_type;
    made->state = IBV_QPS_RESET;
    made->cap = cap;
    made->all_signaled = wanted->sq_sig_all != 0;
    made->qp_num = net().next_number++;
    if (on.is_iwarp())
        made->access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    ++static_cast<pd *>(in)->users;
    ++static_cast<cq *>(made->send_cq)->users;
    ++static_cast<cq *>(made->recv_cq)->users;
    if (made->srq != nullptr)
        ++static_cast<srq *>(made->srq)->users;
    net().pairs.insert(made);
    net().by_number[made->qp_num] = made;
    net().living("ibv_qp", 1);
    return made;
}

int ibv_destroy_qp(ibv_qp *pair) {
    {
        entered call;
        auto *const one = static_cast<qp *>(pair);
        if (net().pairs.erase(pair) != 1)
            die("ibv_destroy_qp of what is none");
        forget_news(*one);
        net().wait(call.held, "ibv_destroy_qp waits for events to be acknowledged",
                   [one] { return one->errors.settled(); });
        net().by_number.erase(one->qp_num);
        forget_completions(*static_cast<cq *>(one->send_cq), *one);
        forget_completions(*static_cast<cq *>(one->recv_cq), *one);
        --static_cast<cq *>(one->send_cq)->users;
        --static_cast<cq *>(one->recv_cq)->users;
        if (one->srq != nullptr)
            --static_cast<srq *>(one->srq)->users;
        --static_cast<pd *>(one->pd)->users;
        net().living("ibv_qp", -1);
        delete one;
        net().work();
    }
    take_order(pair);
    return 0;
}

int ibv_query_qp(ibv_qp *pair, ibv_qp_attr *attr, int, ibv_qp_init_attr *made) {
    const entered call;
    if (const int error = fault("ibv_query_qp"))
        return error;
    attr->cap = made->cap = static_cast<const qp *>(pair)->cap;
    return 0;
}

/// The played machine has nothing beyond the first verbs.
ibv_qp_ex *ibv_qp_to_qp_ex(ibv_qp *) {
    return nullptr;
}

int ibv_modify_qp(ibv_qp *pair, ibv_qp_attr *attr, int mask) {
    const entered call;
    if (const int error = fault("ibv_modify_qp"))
        return error;
    auto &one = *static_cast<qp *>(pair);
    const int must = (mask & IBV_QP_STATE) != 0 ? needed(one, attr->qp_state) : -1;
    if (must < 0 || (mask & must) != must)
        return EINVAL;
    if (attr->qp_state == IBV_QPS_ERR) {
        net().to_error(one);
        return 0;
    }
    one.state = attr->qp_state;
    take(one, *attr, mask);
    if (attr->qp_state == IBV_QPS_RESET) {
        one.requests.clear();
        one.receives.clear();
    }
    net().work();
    return 0;
}
}

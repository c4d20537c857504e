// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// QPs: creation, state transitions, and posting.

#include "fabric.hpp"
#include "manager.hpp"
#include "operations.hpp"

#include <cerrno>

using namespace fake;

namespace {

bool exceeds(std::uint32_t value, int max) {
    return value > static_cast<std::uint32_t>(max);
}

/// The attributes that a transition requires; -1: invalid transition.
int required_mask(const fake_qp &qp, ibv_qp_state new_state) {
    if (new_state == IBV_QPS_ERR || new_state == IBV_QPS_RESET)
        return IBV_QP_STATE;
    const bool datagrams = qp.qp_type == IBV_QPT_UD;
    if (get_fabric().device_of(qp.context).is_iwarp())
        return -1; // done by the kernel
    if (new_state == IBV_QPS_INIT && qp.state == IBV_QPS_RESET)
        return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
               (datagrams ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
    if (new_state == IBV_QPS_INIT && qp.state == IBV_QPS_INIT)
        return IBV_QP_STATE;
    if (new_state == IBV_QPS_RTR && qp.state == IBV_QPS_INIT)
        return datagrams ? IBV_QP_STATE
                         : IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                               IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    if (new_state == IBV_QPS_RTS && qp.state == IBV_QPS_RTR)
        return datagrams ? IBV_QP_STATE | IBV_QP_SQ_PSN
                         : IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                               IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
    return -1;
}

/// Sets the attributes of the mask; the others keep their values.
void update_attr(fake_qp &qp, const ibv_qp_attr &attr, int mask) {
    if ((mask & IBV_QP_ACCESS_FLAGS) != 0)
        qp.access = attr.qp_access_flags;
    if ((mask & IBV_QP_DEST_QPN) != 0)
        qp.dest_qp_num = attr.dest_qp_num;
    const unsigned access = qp.attr.qp_access_flags;
    const ibv_qp_attr old_attr = qp.attr;
    qp.attr = attr;
    if ((mask & IBV_QP_ACCESS_FLAGS) == 0)
        qp.attr.qp_access_flags = access;
    if ((mask & IBV_QP_RNR_RETRY) == 0)
        qp.attr.rnr_retry = old_attr.rnr_retry;
    if ((mask & IBV_QP_MIN_RNR_TIMER) == 0)
        qp.attr.min_rnr_timer = old_attr.min_rnr_timer;
    if ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) == 0)
        qp.attr.max_dest_rd_atomic = old_attr.max_dest_rd_atomic;
    if ((mask & IBV_QP_MAX_QP_RD_ATOMIC) == 0)
        qp.attr.max_rd_atomic = old_attr.max_rd_atomic;
    if ((mask & IBV_QP_PATH_MTU) == 0)
        qp.attr.path_mtu = old_attr.path_mtu;
    if ((mask & IBV_QP_AV) == 0)
        qp.attr.ah_attr = old_attr.ah_attr;
    if ((mask & IBV_QP_PORT) == 0)
        qp.attr.port_num = old_attr.port_num;
}

/// The QP is destroyed: its CQEs are removed, or, as the verbs allow, stay without a QP.
void drop_cqes(fake_cq &cq, const fake_qp &qp) {
    for (auto it = cq.entries.begin(); it != cq.entries.end();)
        if (it->qp != &qp)
            ++it;
        else if (get_fabric().destroy_qp_cleans_cq)
            it = cq.entries.erase(it);
        else
            (it++)->qp = nullptr;
}

/// The errno of ibv_post_send for this request.
int check_send_wr(const fake_qp &qp, const ibv_send_wr &wr) {
    const bool iwarp = get_fabric().device_of(qp.context).is_iwarp();
    if (qp.state != IBV_QPS_RTS && qp.state != IBV_QPS_ERR && !(iwarp && qp.state == IBV_QPS_SQD))
        return EINVAL;
    if (qp.num_posted - qp.num_completed >= qp.cap.max_send_wr)
        return ENOMEM;
    if (wr.num_sge < 0 || static_cast<unsigned>(wr.num_sge) > qp.cap.max_send_sge)
        return EINVAL;
    if (iwarp &&
        (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
         wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM))
        return EINVAL;
    if ((wr.send_flags & IBV_SEND_INLINE) == 0)
        return 0;
    if (wr.opcode == IBV_WR_RDMA_READ || wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
        wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || (iwarp && wr.opcode == IBV_WR_SEND_WITH_INV))
        return EINVAL;
    std::uint64_t length = 0;
    for (int i = 0; i != wr.num_sge; ++i)
        length += wr.sg_list[i].length;
    return length > qp.cap.max_inline_data ? EINVAL : 0;
}

/// Records and queues a request, and executes what can be. Returns 0 or errno.
int post(fake_qp &qp, const ibv_send_wr &wr) {
    if (const int error = check_send_wr(qp, wr))
        return error;
    send_wqe wqe = {wr, {wr.sg_list, wr.sg_list + wr.num_sge}, {}, ++qp.num_posted};
    if ((wr.send_flags & IBV_SEND_INLINE) != 0)
        for (const ibv_sge &sge : wqe.sge_list) {
            const auto *const data = reinterpret_cast<const unsigned char *>(sge.addr);
            wqe.inline_data.insert(wqe.inline_data.end(), data, data + sge.length);
        }
    get_fabric().posts.push_back({&qp, nullptr, false, wr, wqe.sge_list});
    qp.send_queue.push_back(std::move(wqe));
    get_fabric().run_work_requests();
    return 0;
}

} // namespace

namespace fake {

int post_send(ibv_qp *ibqp, ibv_send_wr *list, ibv_send_wr **bad_wr) {
    tsan_release_request(list->wr_id);
    const library_call_guard call;
    *bad_wr = list;
    if (list->next != nullptr)
        die("ibv_post_send: lists are not supported");
    if (const int error = injected_error("ibv_post_send"))
        return error;
    return post(*static_cast<fake_qp *>(ibqp), *list);
}

int post_recv(ibv_qp *ibqp, ibv_recv_wr *list, ibv_recv_wr **bad_wr) {
    tsan_release_request(list->wr_id);
    const library_call_guard call;
    *bad_wr = list;
    if (const int error = injected_error("ibv_post_recv"))
        return error;
    auto &qp = *static_cast<fake_qp *>(ibqp);
    if (qp.srq != nullptr ||
        (qp.state == IBV_QPS_RESET && !get_fabric().device_of(qp.context).is_iwarp()) ||
        list->num_sge < 0 || static_cast<unsigned>(list->num_sge) > qp.cap.max_recv_sge)
        return EINVAL;
    if (qp.num_recvs_used + qp.recv_queue.size() - qp.num_recvs_completed >= qp.cap.max_recv_wr)
        return ENOMEM;
    const std::vector<ibv_sge> segments(list->sg_list, list->sg_list + list->num_sge);
    ibv_send_wr recorded_wr = {};
    recorded_wr.wr_id = list->wr_id;
    recorded_wr.num_sge = list->num_sge;
    get_fabric().posts.push_back({ibqp, nullptr, true, recorded_wr, segments});
    qp.recv_queue.push_back({list->wr_id, segments});
    get_fabric().run_work_requests();
    return 0;
}

int bind_mw(ibv_qp *ibqp, ibv_mw *ibmw, ibv_mw_bind *bind_attr) {
    tsan_release_request(bind_attr->wr_id);
    const library_call_guard call;
    if (const int error = injected_error("ibv_bind_mw"))
        return error;
    ibv_send_wr wr = {};
    wr.wr_id = bind_attr->wr_id;
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = bind_attr->send_flags;
    wr.bind_mw.mw = ibmw;
    wr.bind_mw.rkey = ibv_inc_rkey(ibmw->rkey);
    wr.bind_mw.bind_info = bind_attr->bind_info;
    const int error = post(*static_cast<fake_qp *>(ibqp), wr);
    if (error == 0)
        ibmw->rkey = wr.bind_mw.rkey;
    return error;
}

} // namespace fake

extern "C" {

ibv_qp *ibv_create_qp(ibv_pd *ibpd, ibv_qp_init_attr *init_attr) {
    const library_call_guard call;
    if (const int error = injected_error("ibv_create_qp")) {
        errno = error;
        return nullptr;
    }
    const fake_device &dev = get_fabric().device_of(ibpd->context);
    ibv_qp_cap &cap = init_attr->cap;
    if (exceeds(cap.max_send_wr, dev.attr.max_qp_wr) ||
        exceeds(cap.max_recv_wr, dev.attr.max_qp_wr) ||
        exceeds(cap.max_send_sge, dev.attr.max_sge) ||
        exceeds(cap.max_recv_sge, dev.attr.max_sge) || cap.max_inline_data > dev.max_inline ||
        init_attr->send_cq == nullptr || init_attr->recv_cq == nullptr) {
        errno = EINVAL;
        return nullptr;
    }
    auto *const qp = new fake_qp;
    qp->context = ibpd->context;
    qp->qp_context = init_attr->qp_context;
    qp->pd = ibpd;
    qp->send_cq = init_attr->send_cq;
    qp->recv_cq = init_attr->recv_cq;
    qp->srq = init_attr->srq;
    qp->qp_type = init_attr->qp_type;
    qp->state = IBV_QPS_RESET;
    qp->cap = cap;
    qp->all_signaled = init_attr->sq_sig_all != 0;
    qp->qp_num = get_fabric().next_qp_num++;
    if (dev.is_iwarp())
        qp->access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    ++static_cast<fake_pd *>(ibpd)->refs;
    ++static_cast<fake_cq *>(qp->send_cq)->refs;
    ++static_cast<fake_cq *>(qp->recv_cq)->refs;
    if (qp->srq != nullptr)
        ++static_cast<fake_srq *>(qp->srq)->refs;
    get_fabric().qps.insert(qp);
    get_fabric().qp_by_num[qp->qp_num] = qp;
    get_fabric().adjust_object_count("ibv_qp", 1);
    return qp;
}

int ibv_destroy_qp(ibv_qp *ibqp) {
    {
        library_call_guard call;
        auto *const qp = static_cast<fake_qp *>(ibqp);
        if (get_fabric().qps.erase(ibqp) != 1)
            die("ibv_destroy_qp: no such QP");
        fabric::drop_async_events(qp->context, qp);
        get_fabric().wait(call.lock, "ibv_destroy_qp waits for the peer", [qp] {
            return !get_fabric().unanswered_block || !is_unanswered(qp->qp_num);
        });
        get_fabric().wait(call.lock, "ibv_destroy_qp waits for events to be acknowledged",
                          [qp] { return qp->errors.all_acked(); });
        get_fabric().qp_by_num.erase(qp->qp_num);
        drop_cqes(*static_cast<fake_cq *>(qp->send_cq), *qp);
        drop_cqes(*static_cast<fake_cq *>(qp->recv_cq), *qp);
        --static_cast<fake_cq *>(qp->send_cq)->refs;
        --static_cast<fake_cq *>(qp->recv_cq)->refs;
        if (qp->srq != nullptr)
            --static_cast<fake_srq *>(qp->srq)->refs;
        --static_cast<fake_pd *>(qp->pd)->refs;
        get_fabric().adjust_object_count("ibv_qp", -1);
        delete qp;
        get_fabric().run_work_requests();
    }
    tsan_acquire(ibqp);
    return 0;
}

int ibv_query_qp(ibv_qp *ibqp, ibv_qp_attr *attr, int, ibv_qp_init_attr *init_attr) {
    const library_call_guard call;
    if (const int error = injected_error("ibv_query_qp"))
        return error;
    attr->cap = init_attr->cap = static_cast<const fake_qp *>(ibqp)->cap;
    return 0;
}

/// The fake devices do not support ibv_qp_ex.
ibv_qp_ex *ibv_qp_to_qp_ex(ibv_qp *) {
    return nullptr;
}

int ibv_modify_qp(ibv_qp *ibqp, ibv_qp_attr *attr, int mask) {
    const library_call_guard call;
    if (const int error = injected_error("ibv_modify_qp"))
        return error;
    auto &qp = *static_cast<fake_qp *>(ibqp);
    const int required = (mask & IBV_QP_STATE) != 0 ? required_mask(qp, attr->qp_state) : -1;
    if (required < 0 || (mask & required) != required)
        return EINVAL;
    if (attr->qp_state == IBV_QPS_ERR) {
        get_fabric().qp_to_err(qp);
        return 0;
    }
    qp.state = attr->qp_state;
    update_attr(qp, *attr, mask);
    if (attr->qp_state == IBV_QPS_RESET) {
        qp.send_queue.clear();
        qp.recv_queue.clear();
    }
    get_fabric().run_work_requests();
    return 0;
}
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Connections: their events, queues and end.

#include "conn.hpp"

#include <librpma_coherdma.h>

using namespace coherdma::rpma;

namespace {

/// RPMA_CONN_UNDEFINED: no event of a connection that the program can use.
rpma_conn_event to_conn_event(rdma_cm_event_type type) noexcept {
    switch (type) {
    case RDMA_CM_EVENT_ESTABLISHED:
        return RPMA_CONN_ESTABLISHED;
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        return RPMA_CONN_LOST;
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
        return RPMA_CONN_CLOSED;
    case RDMA_CM_EVENT_REJECTED:
        return RPMA_CONN_REJECTED;
    case RDMA_CM_EVENT_UNREACHABLE:
        return RPMA_CONN_UNREACHABLE;
    default:
        return RPMA_CONN_UNDEFINED;
    }
}

} // namespace

int rpma_conn_get_event_fd(const rpma_conn *conn, int *fd) {
    if (conn == nullptr || fd == nullptr)
        return RPMA_E_INVAL;
    *fd = conn->objects.event_channel->fd;
    return 0;
}

int rpma_conn_next_event(rpma_conn *conn, rpma_conn_event *event) {
    if (conn == nullptr || event == nullptr)
        return RPMA_E_INVAL;
    rdma_cm_event *event_ptr = nullptr;
    if (rdma_get_cm_event(conn->objects.event_channel.get(), &event_ptr) != 0)
        return to_event_error("rdma_get_cm_event");
    const unique_event cm_event(event_ptr);
    // The reply's private data; the passive side has those of the request.
    if (cm_event->event == RDMA_CM_EVENT_ESTABLISHED && conn->data.bytes == nullptr) {
        if (const int ret = conn->data.store(cm_event->param.conn))
            return ret;
    }
    const rpma_conn_event result = to_conn_event(cm_event->event);
    if (result == RPMA_CONN_UNDEFINED) {
        RPMA_LOG(RPMA_LOG_LEVEL_WARNING, "unexpected event: %s", rdma_event_str(cm_event->event));
        return RPMA_E_UNKNOWN;
    }
    // On InfiniBand and RoCE, the peer's first message may precede the event. The kernel sends no
    // DREQ before that, and reports success. relaxed: the kernel has ordered the call and the
    // event.
    if (result == RPMA_CONN_ESTABLISHED && conn->has_disconnected.load(std::memory_order_relaxed) &&
        rdma_disconnect(conn->objects.id.get()) != 0)
        RPMA_LOG_ERRNO(errno, "rdma_disconnect");
    if (conn->objects.requests != nullptr) // A peer may disconnect when it has written.
        conn->objects.requests->sync().sync_after_peer();
    RPMA_LOG(RPMA_LOG_LEVEL_NOTICE, "%s", rpma_utils_conn_event_2str(result));
    *event = result;
    return 0;
}

int rpma_conn_get_private_data(const rpma_conn *conn, rpma_conn_private_data *pdata) {
    if (conn == nullptr || pdata == nullptr)
        return RPMA_E_INVAL;
    *pdata = conn->data.get();
    return 0;
}

int rpma_conn_apply_remote_peer_cfg(rpma_conn *conn, const rpma_peer_cfg *pcfg) {
    bool supported = false;
    if (conn == nullptr || rpma_peer_cfg_get_direct_write_to_pmem(pcfg, &supported) != 0)
        return RPMA_E_INVAL;
    conn->direct_write_to_pmem.store(supported, std::memory_order_relaxed);
    return 0;
}

int rpma_conn_get_qp_num(const rpma_conn *conn, uint32_t *qp_num) {
    if (conn == nullptr || qp_num == nullptr)
        return RPMA_E_INVAL;
    *qp_num = conn->objects.id->qp->qp_num;
    return 0;
}

int rpma_conn_get_cq(const rpma_conn *conn, rpma_cq **cq_ptr) {
    if (conn == nullptr || cq_ptr == nullptr)
        return RPMA_E_INVAL;
    *cq_ptr = conn->objects.cq.get();
    return 0;
}

int rpma_conn_get_rcq(const rpma_conn *conn, rpma_cq **rcq_ptr) {
    if (conn == nullptr || rcq_ptr == nullptr)
        return RPMA_E_INVAL;
    *rcq_ptr = conn->objects.rcq.get();
    return 0;
}

int rpma_conn_get_compl_fd(const rpma_conn *conn, int *fd) {
    if (conn == nullptr || fd == nullptr)
        return RPMA_E_INVAL;
    if (conn->objects.channel == nullptr)
        return RPMA_E_NOT_SHARED_CHNL;
    *fd = conn->objects.channel->fd;
    return 0;
}

int rpma_conn_wait(rpma_conn *conn, int, rpma_cq **cq, bool *is_rcq) {
    if (conn == nullptr || cq == nullptr)
        return RPMA_E_INVAL;
    const conn_objects &objects = conn->objects;
    if (objects.channel == nullptr)
        return RPMA_E_NOT_SHARED_CHNL;
    ibv_cq *ibcq = nullptr;
    void *context = nullptr;
    if (ibv_get_cq_event(objects.channel.get(), &ibcq, &context) != 0)
        return RPMA_E_NO_COMPLETION;
    const bool is_receive = objects.rcq != nullptr && objects.rcq->cq.get() == ibcq;
    rpma_cq *const event_cq = (is_receive ? objects.rcq : objects.cq).get();
    if (event_cq->cq.get() != ibcq) {
        RPMA_LOG(RPMA_LOG_LEVEL_ERROR, "ibv_get_cq_event returned the CQ of another connection");
        return RPMA_E_UNKNOWN;
    }
    const int ret = event_cq->ack_event();
    *cq = ret == 0 ? event_cq : nullptr;
    if (is_rcq != nullptr)
        *is_rcq = is_receive;
    return ret;
}

int rpma_conn_disconnect(rpma_conn *conn) {
    if (conn == nullptr)
        return RPMA_E_INVAL;
    conn->has_disconnected.store(true, std::memory_order_relaxed); // see rpma_conn_next_event()
    if (rdma_disconnect(conn->objects.id.get()) != 0) {
        conn->has_disconnected.store(false, std::memory_order_relaxed);
        RPMA_LOG_ERRNO(errno, "rdma_disconnect");
        return RPMA_E_PROVIDER;
    }
    RPMA_LOG(RPMA_LOG_LEVEL_NOTICE, "disconnect requested");
    return 0;
}

int rpma_conn_delete(rpma_conn **conn_ptr) {
    if (conn_ptr == nullptr)
        return RPMA_E_INVAL;
    const std::unique_ptr<rpma_conn> conn(*conn_ptr);
    *conn_ptr = nullptr;
    if (conn == nullptr)
        return 0;
    first_error error;
    conn->qp.reset();
    error.add(conn->objects.destroy());
    error.add(conn->scratch.destroy()); // after the QP, whose flushes write to it
    return error.get();
}

int rpma_coherdma_query_conn(const rpma_conn *conn, coherdma_qp_attr *attr, size_t size) {
    if (conn == nullptr || attr == nullptr)
        return RPMA_E_INVAL;
    return coherdma_query_qp(conn->qp.get(), attr, size) == 0 ? 0 : RPMA_E_INVAL;
}

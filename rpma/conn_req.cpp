// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "conn_req.hpp"

#include "address.hpp"
#include "conn_cfg.hpp"
#include "peer.hpp"
#include "post.hpp"

#include <new>

namespace coherdma::rpma {

namespace {

/// Gives the id an event channel of its own. All events of the id have been acknowledged.
int migrate_id(conn_objects &objects) noexcept {
    objects.event_channel.reset(rdma_create_event_channel());
    if (objects.event_channel == nullptr) {
        RPMA_LOG_ERRNO(errno, "rdma_create_event_channel");
        return RPMA_E_PROVIDER;
    }
    if (rdma_migrate_id(objects.id.get(), objects.event_channel.get()) != 0) {
        RPMA_LOG_ERRNO(errno, "rdma_migrate_id");
        return RPMA_E_PROVIDER;
    }
    return 0;
}

/// Determines how the QP executes atomic writes and flushes.
int open_qp(rpma_conn &conn, rpma_peer &peer) noexcept {
    conn.qp.reset(coherdma_open_qp(conn.objects.id->qp));
    if (conn.qp == nullptr) {
        RPMA_LOG_ERRNO(errno, "%s", coherdma_error());
        return errno == ENOMEM ? RPMA_E_NOMEM : RPMA_E_PROVIDER;
    }
    coherdma_qp_attr attr = {};
    if (const int error = coherdma_query_qp(conn.qp.get(), &attr, sizeof attr)) {
        RPMA_LOG_ERRNO(error, "%s", coherdma_error());
        return RPMA_E_PROVIDER;
    }
    return attr.flush == COHERDMA_METHOD_NATIVE ? 0 : conn.scratch.create(peer);
}

/// A connection that takes over the objects and the private data of the request. 0, or an RPMA_E_*
/// value.
int create_conn(rpma_conn_req &req, std::unique_ptr<rpma_conn> &result) noexcept {
    std::unique_ptr<rpma_conn> conn(new (std::nothrow) rpma_conn);
    if (conn == nullptr)
        return RPMA_E_NOMEM;
    conn->objects = std::move(req.objects);
    conn->data = std::move(req.data);
    if (const int ret = migrate_id(conn->objects))
        return ret;
    if (const int ret = open_qp(*conn, *req.peer))
        return ret;
    result = std::move(conn);
    return 0;
}

/// Connects, or accepts the peer's request. pdata may be nullptr.
int start_conn(rpma_conn &conn, bool is_passive, const rpma_conn_private_data *pdata) noexcept {
    constexpr std::uint8_t MAX_RETRIES = 7; // of both counters; as rnr_retry_count: no limit
    rdma_conn_param param = {};
    if (pdata != nullptr) {
        param.private_data = pdata->ptr;
        param.private_data_len = pdata->len;
    }
    param.responder_resources = RDMA_MAX_RESP_RES;
    param.initiator_depth = RDMA_MAX_INIT_DEPTH;
    param.flow_control = 1;
    param.retry_count = MAX_RETRIES;
    param.rnr_retry_count = MAX_RETRIES;
    if (conn.objects.requests != nullptr) // Private data may describe memory.
        conn.objects.requests->sync().sync_before_peer();
    rdma_cm_id *const id = conn.objects.id.get();
    if ((is_passive ? rdma_accept(id, &param) : rdma_connect(id, &param)) == 0)
        return 0;
    RPMA_LOG_ERRNO(errno, "%s", is_passive ? "rdma_accept" : "rdma_connect");
    return RPMA_E_PROVIDER;
}

} // namespace

int create_req(rpma_peer &peer, unique_id id, const rpma_conn_cfg *cfg, bool is_passive,
               std::unique_ptr<rpma_conn_req> &result) noexcept {
    const rpma_conn_cfg default_cfg;
    std::unique_ptr<rpma_conn_req> req(new (std::nothrow) rpma_conn_req);
    if (req == nullptr)
        return RPMA_E_NOMEM;
    req->peer = &peer;
    req->is_passive = is_passive;
    req->objects.id = std::move(id);
    if (const int ret = req->objects.create_queues(peer, cfg != nullptr ? *cfg : default_cfg))
        return ret;
    result = std::move(req);
    return 0;
}

} // namespace coherdma::rpma

using namespace coherdma::rpma;

int rpma_conn_req_new(rpma_peer *peer, const char *addr, const char *port, const rpma_conn_cfg *cfg,
                      rpma_conn_req **req_ptr) {
    if (peer == nullptr || addr == nullptr || port == nullptr || req_ptr == nullptr)
        return RPMA_E_INVAL;
    const int timeout_ms =
        cfg != nullptr ? cfg->timeout_ms.load(std::memory_order_relaxed) : RPMA_DEFAULT_TIMEOUT_MS;
    unique_addrinfo info;
    if (const int ret = get_addrinfo(addr, port, side::active, info))
        return ret;
    unique_id id;
    if (const int ret = create_id(nullptr, id))
        return ret;
    if (const int ret = resolve_address(*id, *info, timeout_ms))
        return ret;
    if (rdma_resolve_route(id.get(), timeout_ms) != 0) {
        RPMA_LOG_ERRNO(errno, "rdma_resolve_route to %s within %d ms", addr, timeout_ms);
        return RPMA_E_PROVIDER;
    }
    std::unique_ptr<rpma_conn_req> req;
    if (const int ret = create_req(*peer, std::move(id), cfg, false, req))
        return ret;
    RPMA_LOG(RPMA_LOG_LEVEL_NOTICE, "connection requested to %s, port %s", addr, port);
    *req_ptr = req.release();
    return 0;
}

int rpma_conn_req_delete(rpma_conn_req **req_ptr) {
    if (req_ptr == nullptr)
        return RPMA_E_INVAL;
    const std::unique_ptr<rpma_conn_req> req(*req_ptr);
    *req_ptr = nullptr;
    if (req == nullptr)
        return 0;
    first_error error;
    if (req->is_passive && rdma_reject(req->objects.id.get(), nullptr, 0) != 0) {
        RPMA_LOG_ERRNO(errno, "rdma_reject");
        error.add(RPMA_E_PROVIDER);
    }
    error.add(req->objects.destroy());
    return error.get();
}

int rpma_conn_req_recv(rpma_conn_req *req, rpma_mr_local *dst, size_t offset, size_t len,
                       const void *op_context) {
    if (req == nullptr || dst == nullptr)
        return RPMA_E_INVAL;
    return post_receive(*req->objects.id->qp, post_to_rq, req->objects.receives.get(), dst, offset,
                        len, op_context);
}

int rpma_conn_req_get_private_data(const rpma_conn_req *req, rpma_conn_private_data *pdata) {
    if (req == nullptr || pdata == nullptr)
        return RPMA_E_INVAL;
    *pdata = req->data.get();
    return 0;
}

int rpma_conn_req_connect(rpma_conn_req **req_ptr, const rpma_conn_private_data *pdata,
                          rpma_conn **conn_ptr) {
    if (req_ptr == nullptr || *req_ptr == nullptr)
        return RPMA_E_INVAL;
    if (conn_ptr == nullptr || (pdata != nullptr && (pdata->ptr == nullptr || pdata->len == 0))) {
        rpma_conn_req_delete(req_ptr);
        return RPMA_E_INVAL;
    }
    // Deleted with its id on failure: the kernel then rejects a request of the peer.
    const std::unique_ptr<rpma_conn_req> req(*req_ptr);
    *req_ptr = nullptr;
    std::unique_ptr<rpma_conn> conn;
    if (const int ret = create_conn(*req, conn))
        return ret;
    if (const int ret = start_conn(*conn, req->is_passive, pdata))
        return ret;
    *conn_ptr = conn.release();
    return 0;
}

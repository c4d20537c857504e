// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// An endpoint listens for connection requests.

#include "address.hpp"
#include "conn_cfg.hpp"
#include "conn_req.hpp"

#include <new>

using namespace coherdma::rpma;

struct rpma_ep {
    rpma_peer *peer = nullptr;
    unique_event_channel event_channel;
    unique_id id; ///< destroyed before its channel
};

int rpma_ep_listen(rpma_peer *peer, const char *addr, const char *port, rpma_ep **ep_ptr) {
    if (peer == nullptr || addr == nullptr || port == nullptr || ep_ptr == nullptr)
        return RPMA_E_INVAL;
    std::unique_ptr<rpma_ep> ep(new (std::nothrow) rpma_ep);
    if (ep == nullptr)
        return RPMA_E_NOMEM;
    ep->peer = peer;
    ep->event_channel.reset(rdma_create_event_channel());
    if (ep->event_channel == nullptr) {
        RPMA_LOG_ERRNO(errno, "rdma_create_event_channel");
        return RPMA_E_PROVIDER;
    }
    if (const int ret = create_id(ep->event_channel.get(), ep->id))
        return ret;
    unique_addrinfo info;
    if (const int ret = get_addrinfo(addr, port, side::passive, info))
        return ret;
    if (const int ret = bind_address(*ep->id, *info))
        return ret;
    constexpr int DEFAULT_BACKLOG = 0;
    if (rdma_listen(ep->id.get(), DEFAULT_BACKLOG) != 0) {
        RPMA_LOG_ERRNO(errno, "rdma_listen on %s, port %s", addr, port);
        return RPMA_E_PROVIDER;
    }
    RPMA_LOG(RPMA_LOG_LEVEL_NOTICE, "listening on %s, port %s", addr, port);
    *ep_ptr = ep.release();
    return 0;
}

int rpma_ep_shutdown(rpma_ep **ep_ptr) {
    if (ep_ptr == nullptr)
        return RPMA_E_INVAL;
    const std::unique_ptr<rpma_ep> ep(*ep_ptr);
    *ep_ptr = nullptr;
    return ep == nullptr ? 0 : destroy_id(ep->id);
}

int rpma_ep_get_fd(const rpma_ep *ep, int *fd) {
    if (ep == nullptr || fd == nullptr)
        return RPMA_E_INVAL;
    *fd = ep->event_channel->fd;
    return 0;
}

int rpma_ep_next_conn_req(rpma_ep *ep, const rpma_conn_cfg *cfg, rpma_conn_req **req_ptr) {
    if (ep == nullptr || req_ptr == nullptr)
        return RPMA_E_INVAL;
    rdma_cm_event *event_ptr = nullptr;
    if (rdma_get_cm_event(ep->event_channel.get(), &event_ptr) != 0)
        return to_event_error("rdma_get_cm_event");
    unique_event event(event_ptr);
    if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST) {
        RPMA_LOG(RPMA_LOG_LEVEL_ERROR, "unexpected event: %s", rdma_event_str(event->event));
        return RPMA_E_INVAL;
    }
    private_data data;
    const int data_ret = data.store(event->param.conn);
    // Destroyed on failure: the kernel then rejects the request.
    unique_id id(event->id);
    event.reset();
    if (data_ret != 0)
        return data_ret;
    std::unique_ptr<rpma_conn_req> req;
    if (const int ret = create_req(*ep->peer, std::move(id), cfg, true, req))
        return ret;
    req->data = std::move(data);
    *req_ptr = req.release();
    return 0;
}

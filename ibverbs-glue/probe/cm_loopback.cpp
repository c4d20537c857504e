// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Loopback by the RDMA connection manager. One thread handles both ends on one event channel, so
// each step waits for the one event that can come next.

#include "loopback.hpp"
#include "verbs_objects.hpp"

#include <array>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

namespace coherdma::probe {
namespace {

using unique_event_channel = unique_object<rdma_event_channel, rdma_destroy_event_channel>;
using unique_ifaddrs = unique_object<ifaddrs, freeifaddrs>;

void destroy_id_and_qp(rdma_cm_id *id) {
    if (id->qp)
        rdma_destroy_qp(id);
    rdma_destroy_id(id);
}
using unique_cm_id = unique_object<rdma_cm_id, destroy_id_and_qp>;

void throw_if_failed(int result, const char *action) {
    if (result != 0)
        throw_error(errno, action);
}

unique_cm_id create_id(rdma_event_channel *channel) {
    rdma_cm_id *id = nullptr;
    throw_if_failed(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), "creating an rdma_cm_id");
    return unique_cm_id(id);
}

/// Listens on the first local address that rdma_cm binds to the device.
unique_cm_id listen_on_device(rdma_event_channel *channel, const std::string &device) {
    ifaddrs *list = nullptr;
    throw_if_failed(getifaddrs(&list), "listing local addresses");
    const unique_ifaddrs list_owner(list);
    for (const ifaddrs *entry = list; entry; entry = entry->ifa_next) {
        const int family = entry->ifa_addr ? entry->ifa_addr->sa_family : AF_UNSPEC;
        if (family != AF_INET && family != AF_INET6)
            continue;
        sockaddr_storage addr = {};
        std::memcpy(&addr, entry->ifa_addr,
                    family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
        unique_cm_id id = create_id(channel);
        if (rdma_bind_addr(id.get(), reinterpret_cast<sockaddr *>(&addr)) == 0 && id->verbs &&
            device == ibv_get_device_name(id->verbs->device) && rdma_listen(id.get(), 1) == 0)
            return id;
    }
    throw_error(EADDRNOTAVAIL, "looking for an address of the device");
}

class cm_loopback final : public loopback {
  public:
    explicit cm_loopback(const loopback_attr &attr)
        : timeout_(attr.timeout)
        , channel_(throw_if_null(rdma_create_event_channel(), "creating an event channel"))
        , listen_id_(listen_on_device(channel_.get(), ibv_get_device_name(attr.context->device)))
        , active_id_(create_id(channel_.get())) {
        throw_if_failed(fcntl(channel_->fd, F_SETFL, O_NONBLOCK), "setting O_NONBLOCK");
        const int timeout_ms = static_cast<int>(timeout_.count());
        throw_if_failed(rdma_resolve_addr(active_id_.get(), nullptr,
                                          rdma_get_local_addr(listen_id_.get()), timeout_ms),
                        "resolving the device's address");
        wait_for_event(RDMA_CM_EVENT_ADDR_RESOLVED);
        throw_if_failed(rdma_resolve_route(active_id_.get(), timeout_ms),
                        "resolving the route to the device");
        wait_for_event(RDMA_CM_EVENT_ROUTE_RESOLVED);

        // librdmacm has its own context of the device, so a PD of that context is needed.
        pd_.reset(throw_if_null(ibv_alloc_pd(active_id_->verbs), "allocating a PD"));
        cq_.reset(throw_if_null(ibv_create_cq(active_id_->verbs, 4, nullptr, nullptr, 0),
                                "creating a CQ"));
        source_mr_ = register_memory(pd_.get(), attr.source);
        sink_mr_ = register_memory(pd_.get(), attr.sink);
        create_qp(active_id_.get());

        rdma_conn_param conn_param = {};
        conn_param.initiator_depth = 1;
        conn_param.responder_resources = 1;
        throw_if_failed(rdma_connect(active_id_.get(), &conn_param),
                        "connecting the device to itself");
        passive_id_.reset(wait_for_event(RDMA_CM_EVENT_CONNECT_REQUEST));
        create_qp(passive_id_.get());
        throw_if_failed(rdma_accept(passive_id_.get(), &conn_param), "accepting the connection");
        wait_for_event(RDMA_CM_EVENT_ESTABLISHED);
        wait_for_event(RDMA_CM_EVENT_ESTABLISHED);
    }
    ~cm_loopback() override {
        active_id_.reset(); // the QPs before their CQ and PD
        passive_id_.reset();
    }

    int copy() override {
        return rdma_read(active_id_->qp, cq_.get(), source_mr_.get(), sink_mr_.get(), timeout_);
    }

  private:
    void create_qp(rdma_cm_id *id) {
        ibv_qp_init_attr attr = make_qp_init_attr(cq_.get());
        throw_if_failed(rdma_create_qp(id, pd_.get(), &attr), "creating a QP");
    }

    /// Acknowledges the next event, which must be of this type, and returns its id.
    rdma_cm_id *wait_for_event(rdma_cm_event_type expected) {
        pollfd pollfd = {channel_->fd, POLLIN, 0};
        const int timeout_ms = static_cast<int>(timeout_.count());
        rdma_cm_event *event = nullptr;
        if (poll(&pollfd, 1, timeout_ms) <= 0 || rdma_get_cm_event(channel_.get(), &event) != 0)
            throw_error(ETIMEDOUT, "waiting for the connection manager");
        const rdma_cm_event_type type = event->event;
        rdma_cm_id *id = event->id;
        rdma_ack_cm_event(event);
        if (type != expected)
            throw_error(EPROTO, rdma_event_str(type));
        return id;
    }

    std::chrono::milliseconds timeout_;
    unique_event_channel channel_;
    unique_cm_id listen_id_, active_id_, passive_id_;
    unique_pd pd_;
    unique_cq cq_;
    unique_mr source_mr_, sink_mr_;
};

} // namespace

std::unique_ptr<loopback> connect_by_cm(const loopback_attr &attr) {
    return std::make_unique<cm_loopback>(attr);
}

} // namespace coherdma::probe

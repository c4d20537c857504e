// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Loopback by the RDMA connection manager: one thread handles both ends on one event channel.

#include "buffers.hpp"
#include "cm_objects.hpp"
#include "loopback.hpp"

#include <sys/socket.h>

namespace coherdma::probe {
namespace {

unique_cm_id listen_on_device(const cm_event_channel &channel, const char *device) {
    unique_cm_id id = channel.bind_to_device(device, AF_UNSPEC);
    throw_if_rdma_cm_failed(rdma_listen(id.get(), 1), "listening on the device");
    return id;
}

class cm_loopback final : public loopback {
  public:
    explicit cm_loopback(const loopback_attr &attr)
        : channel_(attr.timeout)
        , listen_id_(listen_on_device(channel_, ibv_get_device_name(attr.context->device)))
        , active_id_(channel_.create_id()) {
        channel_.resolve(active_id_.get(), rdma_get_local_addr(listen_id_.get()));

        // librdmacm has its own context of the device, so a PD of that context is needed.
        pd_.reset(throw_if_null(ibv_alloc_pd(active_id_->verbs), "allocating a PD"));
        cq_.reset(throw_if_null(ibv_create_cq(active_id_->verbs, 4, nullptr, nullptr, 0),
                                "creating a CQ"));
        source_mr_ = register_memory(pd_.get(), attr.source);
        sink_mr_ = register_memory(pd_.get(), attr.sink);
        flush_mr_ = register_memory(pd_.get(), flush_buffer_.words());
        create_qp(active_id_.get(), pd_.get(), cq_.get());

        rdma_conn_param conn_param = {};
        conn_param.initiator_depth = 1;
        conn_param.responder_resources = 1;
        throw_if_rdma_cm_failed(rdma_connect(active_id_.get(), &conn_param),
                                "connecting the device to itself");
        passive_id_.reset(channel_.wait_for(RDMA_CM_EVENT_CONNECT_REQUEST).id);
        create_qp(passive_id_.get(), pd_.get(), cq_.get());
        throw_if_rdma_cm_failed(rdma_accept(passive_id_.get(), &conn_param),
                                "accepting the connection");
        channel_.wait_for(RDMA_CM_EVENT_ESTABLISHED);
        channel_.wait_for(RDMA_CM_EVENT_ESTABLISHED);
        listen_id_.reset(); // no other program can connect
        requester_ = {.qp = active_id_->qp, .cq = cq_.get(), .timeout = attr.timeout};
    }
    int copy() override {
        if (const int error = channel_.why_ended(std::chrono::milliseconds(0)))
            return error;
        return rdma_read(requester_, remote_memory_of(source_mr_.get()), sink_mr_.get());
    }
    int copy_by_write() override {
        if (const int error = channel_.why_ended(std::chrono::milliseconds(0)))
            return error;
        return rdma_write(requester_, source_mr_.get(), remote_memory_of(sink_mr_.get()),
                          flush_mr_.get());
    }

  private:
    cm_event_channel channel_;
    unique_cm_id listen_id_;
    flush_buffer flush_buffer_;
    unique_pd pd_;
    unique_cq cq_;
    unique_mr source_mr_, sink_mr_, flush_mr_;
    unique_cm_id active_id_, passive_id_; ///< destroyed first: their QPs use the others
    requester requester_ = {};
};

} // namespace

std::unique_ptr<loopback> connect_by_cm(const loopback_attr &attr) {
    return std::make_unique<cm_loopback>(attr);
}

} // namespace coherdma::probe

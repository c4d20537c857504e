// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "buffers.hpp"
#include "loopback.hpp"
#include "verbs_objects.hpp"

#include <cerrno>

namespace coherdma::probe {
namespace {

// The index of the first RoCE v2 GID of an IPv4 address, else of the first GID that is not empty;
// -1: none.
int find_gid_index(ibv_context *context, std::uint8_t port_num, int gid_tbl_len) {
    int fallback = -1;
    for (int index = 0; index < gid_tbl_len; ++index) {
        ibv_gid_entry entry = {};
        if (ibv_query_gid_ex(context, port_num, static_cast<std::uint32_t>(index), &entry, 0) != 0)
            continue;
        const bool is_empty = entry.gid.global.interface_id == 0;
        const bool is_ipv4 = entry.gid.global.subnet_prefix == 0;
        if (!is_empty && fallback < 0)
            fallback = index;
        if (!is_empty && entry.gid_type == IBV_GID_TYPE_ROCE_V2 && is_ipv4)
            return index;
    }
    return fallback;
}

void throw_if_failed(int error, const char *action) {
    if (error != 0)
        throw_error(error, action);
}

/// Moves the QP to RTS. ah_attr: the port itself, as the address of the other QP.
void connect_qp(ibv_qp *qp, const ibv_ah_attr &ah_attr, std::uint32_t dest_qp_num, ibv_mtu mtu) {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = ah_attr.port_num;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    throw_if_failed(
        ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
        "moving a QP to INIT");
    attr.qp_state = IBV_QPS_RTR;
    attr.ah_attr = ah_attr;
    attr.path_mtu = mtu;
    attr.dest_qp_num = dest_qp_num;
    attr.max_dest_rd_atomic = 1;
    attr.min_rnr_timer = 12;
    throw_if_failed(ibv_modify_qp(qp, &attr,
                                  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                      IBV_QP_MIN_RNR_TIMER),
                    "moving a QP to RTR");
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 14;
    attr.retry_cnt = 7;
    attr.rnr_retry = 7;
    attr.max_rd_atomic = 1;
    throw_if_failed(ibv_modify_qp(qp, &attr,
                                  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                      IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
                    "moving a QP to RTS");
}

class verbs_loopback final : public loopback {
  public:
    explicit verbs_loopback(const loopback_attr &attr)
        : pd_(throw_if_null(ibv_alloc_pd(attr.context), "allocating a PD"))
        , cq_(throw_if_null(ibv_create_cq(attr.context, 4, nullptr, nullptr, 0), "creating a CQ"))
        , source_mr_(register_memory(pd_.get(), attr.source))
        , sink_mr_(register_memory(pd_.get(), attr.sink))
        , flush_mr_(register_memory(pd_.get(), flush_buffer_.words())) {
        ibv_port_attr port_attr = {};
        throw_if_failed(ibv_query_port(attr.context, attr.port_num, &port_attr),
                        "querying the port");
        ibv_ah_attr ah_attr = {};
        ah_attr.port_num = attr.port_num;
        ah_attr.dlid = port_attr.lid;
        if (port_attr.link_layer == IBV_LINK_LAYER_ETHERNET) {
            const int index = find_gid_index(attr.context, attr.port_num, port_attr.gid_tbl_len);
            if (index < 0)
                throw_error(EADDRNOTAVAIL, "looking for a GID of the port");
            ah_attr.is_global = 1;
            ah_attr.grh.sgid_index = static_cast<std::uint8_t>(index);
            ah_attr.grh.hop_limit = 1;
            throw_if_failed(ibv_query_gid(attr.context, attr.port_num, index, &ah_attr.grh.dgid),
                            "querying a GID of the port");
        }
        ibv_qp_init_attr requester_attr = make_qp_init_attr(cq_.get()),
                         responder_attr = requester_attr;
        requester_qp_.reset(
            throw_if_null(ibv_create_qp(pd_.get(), &requester_attr), "creating a QP"));
        responder_qp_.reset(
            throw_if_null(ibv_create_qp(pd_.get(), &responder_attr), "creating a QP"));
        connect_qp(requester_qp_.get(), ah_attr, responder_qp_->qp_num, port_attr.active_mtu);
        connect_qp(responder_qp_.get(), ah_attr, requester_qp_->qp_num, port_attr.active_mtu);
        requester_ = {.qp = requester_qp_.get(), .cq = cq_.get(), .timeout = attr.timeout};
    }

    int copy() override {
        return rdma_read(requester_, remote_memory_of(source_mr_.get()), sink_mr_.get());
    }
    int copy_by_write() override {
        return rdma_write(requester_, source_mr_.get(), remote_memory_of(sink_mr_.get()),
                          flush_mr_.get());
    }

  private:
    flush_buffer flush_buffer_;
    unique_pd pd_;
    unique_cq cq_;
    unique_mr source_mr_, sink_mr_, flush_mr_;
    unique_qp requester_qp_, responder_qp_;
    requester requester_ = {};
};

} // namespace

std::unique_ptr<loopback> connect_by_verbs(const loopback_attr &attr) {
    return std::make_unique<verbs_loopback>(attr);
}

} // namespace coherdma::probe

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "conn.hpp"
#include "conn_cfg.hpp"
#include "peer.hpp"
#include "srq.hpp"

#include <new>

namespace coherdma::rpma {

namespace {

/// The native operations that a QP of the device has: enum ibv_qp_create_send_ops_flags.
std::uint64_t to_send_ops(const device_caps &caps) noexcept {
    std::uint64_t send_ops = caps.has_atomic_write ? std::uint64_t{IBV_QP_EX_WITH_ATOMIC_WRITE} : 0;
#ifdef COHERDMA_HAS_FLUSH
    if (caps.has_flush)
        send_ops |= IBV_QP_EX_WITH_FLUSH;
#endif
    return send_ops;
}

/// 0, or an RPMA_E_* value.
int create_qp(rpma_peer &peer, rdma_cm_id &id, ibv_cq *send_cq, ibv_cq *recv_cq, ibv_srq *srq,
              const rpma_conn_cfg &cfg) noexcept {
    ibv_qp_init_attr_ex attr = {};
    attr.send_cq = send_cq;
    attr.recv_cq = recv_cq;
    attr.srq = srq;
    attr.cap = {
        .max_send_wr = cfg.sq_size.load(std::memory_order_relaxed),
        .max_recv_wr = cfg.rq_size.load(std::memory_order_relaxed),
        .max_send_sge = 1,
        .max_recv_sge = 1,
        .max_inline_data = RPMA_ATOMIC_WRITE_ALIGNMENT, // of an atomic write without native one
    };
    attr.qp_type = IBV_QPT_RC;
    attr.pd = peer.pd.get();
    attr.comp_mask = IBV_QP_INIT_ATTR_PD;
    attr.send_ops_flags = to_send_ops(peer.caps);
    // Not if there are none: providers without ibv_create_qp_ex(), as for siw, refuse them.
    if (attr.send_ops_flags != 0)
        attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    if (rdma_create_qp_ex(&id, &attr) == 0)
        return 0;
    // The kernel's driver has operations that the provider lacks.
    if (errno == EOPNOTSUPP && attr.send_ops_flags != 0) {
        attr.comp_mask = IBV_QP_INIT_ATTR_PD;
        attr.send_ops_flags = 0;
        if (rdma_create_qp_ex(&id, &attr) == 0)
            return 0;
    }
    RPMA_LOG_ERRNO(errno, "rdma_create_qp_ex with SQ of %u and RQ of %u entries",
                   cfg.sq_size.load(std::memory_order_relaxed),
                   cfg.rq_size.load(std::memory_order_relaxed));
    return RPMA_E_PROVIDER;
}

} // namespace

int conn_objects::create_queues(rpma_peer &peer, const rpma_conn_cfg &cfg) noexcept {
    const rpma_srq *const srq = cfg.srq.load(std::memory_order_relaxed);
    const bool shares_channel = cfg.shares_channel.load(std::memory_order_relaxed);
    const bool srq_has_cq = srq != nullptr && srq->rcq != nullptr;
    if (shares_channel && srq_has_cq) {
        RPMA_LOG(RPMA_LOG_LEVEL_ERROR,
                 "a connection cannot share a completion channel with an SRQ that has a CQ");
        return RPMA_E_INVAL;
    }
    ibv_context &context = *id->verbs;
    if (shares_channel) {
        if (const int ret = create_channel(context, channel))
            return ret;
    }
    const int cqe = to_cqe(cfg.cq_size.load(std::memory_order_relaxed));
    const int rcqe = to_cqe(cfg.rcq_size.load(std::memory_order_relaxed));
    if (const int ret = create_cq(peer, cqe, channel.get(), cq))
        return ret;
    if (!srq_has_cq && rcqe != 0) {
        if (const int ret = create_cq(peer, rcqe, channel.get(), rcq))
            return ret;
    }
    if (const int ret = create_sync_queue(peer, true, requests))
        return ret;
    if (const int ret = create_sync_queue(peer, true, receives))
        return ret;
    ibv_cq *const recv_cq = (srq_has_cq ? srq->rcq : rcq != nullptr ? rcq : cq)->cq.get();
    return create_qp(peer, *id, cq->cq.get(), recv_cq, srq != nullptr ? srq->srq.get() : nullptr,
                     cfg);
}

int conn_objects::destroy() noexcept {
    first_error error;
    // Receives of an SRQ that the program has not polled: its queue outlives the connection.
    for (rpma_cq *const each : {cq.get(), rcq.get()}) {
        if (each != nullptr && each->sync != nullptr)
            each->drain();
    }
    if (id != nullptr && id->qp != nullptr)
        rdma_destroy_qp(id.get());
    requests.reset();
    receives.reset();
    error.add(destroy_cq(rcq));
    error.add(destroy_cq(cq));
    error.add(destroy_id(id));
    error.add(destroy_verbs(channel, ibv_destroy_comp_channel, "ibv_destroy_comp_channel"));
    event_channel.reset();
    return error.get();
}

int private_data::store(const rdma_conn_param &param) noexcept {
    if (param.private_data == nullptr || param.private_data_len == 0)
        return 0;
    bytes.reset(new (std::nothrow) std::uint8_t[param.private_data_len]);
    if (bytes == nullptr)
        return RPMA_E_NOMEM;
    length = param.private_data_len;
    std::memcpy(bytes.get(), param.private_data, length);
    return 0;
}

} // namespace coherdma::rpma

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "srq.hpp"

#include "conn_cfg.hpp"
#include "mr.hpp"
#include "peer.hpp"
#include "post.hpp"

#include <atomic>
#include <new>

using namespace coherdma::rpma;

struct rpma_srq_cfg {
    std::atomic<std::uint32_t> rq_size = 20;
    std::atomic<std::uint32_t> rcq_size = 20; ///< 0: the SRQ has no CQ
};

namespace {

int set(rpma_srq_cfg *cfg, std::atomic<std::uint32_t> rpma_srq_cfg::*member,
        std::uint32_t value) noexcept {
    if (cfg == nullptr)
        return RPMA_E_INVAL;
    (cfg->*member).store(value, std::memory_order_relaxed);
    return 0;
}

int get(const rpma_srq_cfg *cfg, const std::atomic<std::uint32_t> rpma_srq_cfg::*member,
        std::uint32_t *value) noexcept {
    if (cfg == nullptr || value == nullptr)
        return RPMA_E_INVAL;
    *value = (cfg->*member).load(std::memory_order_relaxed);
    return 0;
}

} // namespace

int rpma_srq_cfg_new(rpma_srq_cfg **cfg_ptr) {
    if (cfg_ptr == nullptr)
        return RPMA_E_INVAL;
    *cfg_ptr = new (std::nothrow) rpma_srq_cfg;
    return *cfg_ptr != nullptr ? 0 : RPMA_E_NOMEM;
}

int rpma_srq_cfg_delete(rpma_srq_cfg **cfg_ptr) {
    if (cfg_ptr == nullptr)
        return RPMA_E_INVAL;
    delete *cfg_ptr;
    *cfg_ptr = nullptr;
    return 0;
}

int rpma_srq_cfg_set_rq_size(rpma_srq_cfg *cfg, uint32_t rq_size) {
    return set(cfg, &rpma_srq_cfg::rq_size, rq_size);
}
int rpma_srq_cfg_get_rq_size(const rpma_srq_cfg *cfg, uint32_t *rq_size) {
    return get(cfg, &rpma_srq_cfg::rq_size, rq_size);
}

int rpma_srq_cfg_set_rcq_size(rpma_srq_cfg *cfg, uint32_t rcq_size) {
    return set(cfg, &rpma_srq_cfg::rcq_size, rcq_size);
}
int rpma_srq_cfg_get_rcq_size(const rpma_srq_cfg *cfg, uint32_t *rcq_size) {
    return get(cfg, &rpma_srq_cfg::rcq_size, rcq_size);
}

int rpma_srq_new(rpma_peer *peer, rpma_srq_cfg *cfg, rpma_srq **srq_ptr) {
    if (peer == nullptr || srq_ptr == nullptr)
        return RPMA_E_INVAL;
    const rpma_srq_cfg default_cfg;
    const rpma_srq_cfg &used_cfg = cfg != nullptr ? *cfg : default_cfg;
    std::unique_ptr<rpma_srq> srq(new (std::nothrow) rpma_srq);
    if (srq == nullptr)
        return RPMA_E_NOMEM;
    ibv_srq_init_attr attr = {};
    attr.attr.max_wr = used_cfg.rq_size.load(std::memory_order_relaxed);
    attr.attr.max_sge = 1;
    srq->srq.reset(ibv_create_srq(peer->pd.get(), &attr));
    if (srq->srq == nullptr) {
        RPMA_LOG_ERRNO(errno, "ibv_create_srq of %u entries", attr.attr.max_wr);
        return RPMA_E_PROVIDER;
    }
    if (const int rcqe = to_cqe(used_cfg.rcq_size.load(std::memory_order_relaxed))) {
        if (const int ret = create_cq(*peer, rcqe, nullptr, srq->rcq))
            return ret;
    }
    if (const int ret = create_sync_queue(*peer, false, srq->receives))
        return ret;
    *srq_ptr = srq.release();
    return 0;
}

int rpma_srq_delete(rpma_srq **srq_ptr) {
    if (srq_ptr == nullptr)
        return RPMA_E_INVAL;
    const std::unique_ptr<rpma_srq> srq(*srq_ptr);
    *srq_ptr = nullptr;
    if (srq == nullptr)
        return 0;
    first_error error;
    error.add(destroy_cq(srq->rcq));
    error.add(destroy_verbs(srq->srq, ibv_destroy_srq, "ibv_destroy_srq"));
    return error.get();
}

int rpma_srq_recv(rpma_srq *srq, rpma_mr_local *dst, size_t offset, size_t len,
                  const void *op_context) {
    if (srq == nullptr || (dst == nullptr && (offset != 0 || len != 0)))
        return RPMA_E_INVAL;
    return post_receive(*srq->srq, ibv_post_srq_recv, srq->receives.get(), dst, offset, len,
                        op_context);
}

int rpma_srq_get_rcq(const rpma_srq *srq, rpma_cq **rcq_ptr) {
    if (srq == nullptr || rcq_ptr == nullptr)
        return RPMA_E_INVAL;
    *rcq_ptr = srq->rcq.get();
    return 0;
}

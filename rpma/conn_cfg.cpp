// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "conn_cfg.hpp"

#include <new>

namespace {

template <class value_type>
int set(rpma_conn_cfg *cfg, std::atomic<value_type> rpma_conn_cfg::*member,
        value_type value) noexcept {
    if (cfg == nullptr)
        return RPMA_E_INVAL;
    (cfg->*member).store(value, std::memory_order_relaxed);
    return 0;
}

template <class value_type>
int get(const rpma_conn_cfg *cfg, const std::atomic<value_type> rpma_conn_cfg::*member,
        value_type *value) noexcept {
    if (cfg == nullptr || value == nullptr)
        return RPMA_E_INVAL;
    *value = (cfg->*member).load(std::memory_order_relaxed);
    return 0;
}

} // namespace

int rpma_conn_cfg_new(rpma_conn_cfg **cfg_ptr) {
    if (cfg_ptr == nullptr)
        return RPMA_E_INVAL;
    *cfg_ptr = new (std::nothrow) rpma_conn_cfg;
    return *cfg_ptr != nullptr ? 0 : RPMA_E_NOMEM;
}

int rpma_conn_cfg_delete(rpma_conn_cfg **cfg_ptr) {
    if (cfg_ptr == nullptr)
        return RPMA_E_INVAL;
    delete *cfg_ptr;
    *cfg_ptr = nullptr;
    return 0;
}

int rpma_conn_cfg_set_timeout(rpma_conn_cfg *cfg, int timeout_ms) {
    return timeout_ms < 0 ? RPMA_E_INVAL : set(cfg, &rpma_conn_cfg::timeout_ms, timeout_ms);
}
int rpma_conn_cfg_get_timeout(const rpma_conn_cfg *cfg, int *timeout_ms) {
    return get(cfg, &rpma_conn_cfg::timeout_ms, timeout_ms);
}

int rpma_conn_cfg_set_compl_channel(rpma_conn_cfg *cfg, bool shared) {
    return set(cfg, &rpma_conn_cfg::shares_channel, shared);
}
int rpma_conn_cfg_get_compl_channel(const rpma_conn_cfg *cfg, bool *shared) {
    return get(cfg, &rpma_conn_cfg::shares_channel, shared);
}

int rpma_conn_cfg_set_cq_size(rpma_conn_cfg *cfg, uint32_t cq_size) {
    return set(cfg, &rpma_conn_cfg::cq_size, cq_size);
}
int rpma_conn_cfg_get_cq_size(const rpma_conn_cfg *cfg, uint32_t *cq_size) {
    return get(cfg, &rpma_conn_cfg::cq_size, cq_size);
}

int rpma_conn_cfg_set_rcq_size(rpma_conn_cfg *cfg, uint32_t rcq_size) {
    return set(cfg, &rpma_conn_cfg::rcq_size, rcq_size);
}
int rpma_conn_cfg_get_rcq_size(const rpma_conn_cfg *cfg, uint32_t *rcq_size) {
    return get(cfg, &rpma_conn_cfg::rcq_size, rcq_size);
}

int rpma_conn_cfg_set_sq_size(rpma_conn_cfg *cfg, uint32_t sq_size) {
    return set(cfg, &rpma_conn_cfg::sq_size, sq_size);
}
int rpma_conn_cfg_get_sq_size(const rpma_conn_cfg *cfg, uint32_t *sq_size) {
    return get(cfg, &rpma_conn_cfg::sq_size, sq_size);
}

int rpma_conn_cfg_set_rq_size(rpma_conn_cfg *cfg, uint32_t rq_size) {
    return set(cfg, &rpma_conn_cfg::rq_size, rq_size);
}
int rpma_conn_cfg_get_rq_size(const rpma_conn_cfg *cfg, uint32_t *rq_size) {
    return get(cfg, &rpma_conn_cfg::rq_size, rq_size);
}

int rpma_conn_cfg_set_srq(rpma_conn_cfg *cfg, rpma_srq *srq) {
    return srq == nullptr ? RPMA_E_INVAL : set(cfg, &rpma_conn_cfg::srq, srq);
}
int rpma_conn_cfg_get_srq(const rpma_conn_cfg *cfg, rpma_srq **srq_ptr) {
    return get(cfg, &rpma_conn_cfg::srq, srq_ptr);
}

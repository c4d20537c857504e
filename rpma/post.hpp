// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Work requests of one segment.
#pragma once

#include "log.hpp"
#include "mr.hpp"

#include <cstdint>
#include <infiniband/verbs.h>

namespace coherdma::rpma {

/// Local memory of a work request; num_sge is 0 for none.
struct segment {
    ibv_sge sge;
    int num_sge;
};

/// Bytes of a region from an offset; mr: nullptr for none. The device checks the region's bounds.
/// 0, or RPMA_E_INVAL.
inline int to_segment(const rpma_mr_local *mr, std::size_t offset, std::size_t length,
                      segment &result) noexcept {
    if (mr == nullptr) {
        result = {};
        return 0;
    }
    if (length > UINT32_MAX) {
        RPMA_LOG(RPMA_LOG_LEVEL_ERROR, "%zu bytes exceed the maximum of a request, %u", length,
                 UINT32_MAX);
        return RPMA_E_INVAL;
    }
    result = {
        .sge = {.addr = reinterpret_cast<std::uintptr_t>(mr->mr->addr) + offset,
                .length = static_cast<std::uint32_t>(length),
                .lkey = mr->mr->lkey},
        .num_sge = 1,
    };
    return 0;
}

/// A QP with an SRQ has no RQ; rdma-core's provider of siw crashes.
inline int post_to_rq(ibv_qp *qp, ibv_recv_wr *wr, ibv_recv_wr **bad_wr) noexcept {
    return qp->srq == nullptr ? ibv_post_recv(qp, wr, bad_wr) : EINVAL;
}

/// Posts a receive to an RQ or an SRQ: post is post_to_rq() or ibv_post_srq_recv(). 0, or an
/// RPMA_E_* value.
template <class queue_type, class post_function>
int post_receive(queue_type &queue, post_function *post, sync_queue *receives,
                 const rpma_mr_local *mr, std::size_t offset, std::size_t length,
                 const void *op_context) noexcept {
    segment local;
    if (const int ret = to_segment(mr, offset, length, local))
        return ret;
    const int error =
        post_synced(receives, op_context, local.sge, access::writes, [&](std::uint64_t wr_id) {
            ibv_recv_wr wr = {
                .wr_id = wr_id,
                .next = nullptr,
                .sg_list = local.num_sge != 0 ? &local.sge : nullptr,
                .num_sge = local.num_sge,
            };
            ibv_recv_wr *bad_wr = nullptr;
            return post(&queue, &wr, &bad_wr);
        });
    if (error != 0) {
        RPMA_LOG_ERRNO(error, "cannot post a receive of %u bytes", local.sge.length);
        return RPMA_E_PROVIDER;
    }
    return 0;
}

} // namespace coherdma::rpma

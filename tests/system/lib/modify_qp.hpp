// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The states of a QP that is connected to one of the same device, by verbs alone.

#pragma once

#include "verbs.hpp"

#include <cstdint>
#include <infiniband/verbs.h>

namespace verbs_test {

constexpr std::uint32_t loopback_qkey = 0x1234;

/// The address of the device itself.
inline ibv_ah_attr make_loopback_ah_attr(const ibv_gid &gid, int gid_index) {
    ibv_ah_attr attr{};
    attr.is_global = 1;
    attr.port_num = 1;
    attr.grh.dgid = gid;
    attr.grh.sgid_index = static_cast<std::uint8_t>(gid_index);
    attr.grh.hop_limit = 1;
    return attr;
}
inline void modify_qp_to_init(ibv_qp *qp, unsigned access) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qkey = loopback_qkey;
    attr.qp_access_flags = access;
    const int type_mask = qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    check(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | type_mask),
          "to INIT");
}
inline void modify_qp_to_rtr(ibv_qp *qp, std::uint32_t dest_qp_num, const ibv_ah_attr &ah_attr,
                             std::uint8_t max_dest_rd_atomic) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = dest_qp_num;
    attr.max_dest_rd_atomic = max_dest_rd_atomic;
    attr.min_rnr_timer = 1;
    attr.ah_attr = ah_attr;
    int mask = IBV_QP_STATE;
    if (qp->qp_type != IBV_QPT_UD)
        mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (qp->qp_type == IBV_QPT_RC)
        mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    check(ibv_modify_qp(qp, &attr, mask), "to RTR");
}
/// retry_cnt: 7 is without end with rxe, although only an RNR retry counter is so by the standard.
inline void modify_qp_to_rts(ibv_qp *qp, std::uint8_t timeout, std::uint8_t rnr_retry,
                             std::uint8_t max_rd_atomic, std::uint8_t retry_cnt = 7) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = timeout;
    attr.retry_cnt = retry_cnt;
    attr.rnr_retry = rnr_retry;
    attr.max_rd_atomic = max_rd_atomic;
    int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (qp->qp_type == IBV_QPT_RC)
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    check(ibv_modify_qp(qp, &attr, mask), "to RTS");
}

} // namespace verbs_test

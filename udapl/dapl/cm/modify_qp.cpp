// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Moves a QP from INIT to RTS with the attributes that rdma_cm gives. For iWARP the kernel does it.

#include "connection.hpp"
#include "dapl/core/settings.hpp"
#include "dapl/ia/ia.hpp"

#include <algorithm>
#include <cerrno>

namespace coherdma::dapl::cm {

namespace {

/// Moves the QP one state further. 0 or an errno.
int modify_qp_state(dapl_ep &ep, connection &conn, ibv_qp_state state) noexcept {
    ibv_qp_attr attr = {};
    int mask = 0;
    attr.qp_state = state;
    if (rdma_init_qp_attr(conn.id, &attr, &mask) != 0)
        return errno;
    const settings &settings = get_settings();
    if (state == IBV_QPS_RTR) {
        attr.min_rnr_timer = settings.rnr_timer;
        attr.path_mtu = std::min(attr.path_mtu, settings.max_path_mtu);
        if (settings.hop_limit != AS_ROUTE)
            attr.ah_attr.grh.hop_limit = static_cast<std::uint8_t>(settings.hop_limit);
        if (!conn.active) // The reply is sent later, so rdma_cm has the depths of the request.
            attr.max_dest_rd_atomic = conn.responder_resources;
    }
    if (state == IBV_QPS_RTS && settings.ack_timer != AS_ROUTE)
        attr.timeout = static_cast<std::uint8_t>(settings.ack_timer);
    conn.ack_timeout = attr.timeout;
    if (state == IBV_QPS_RTS && !conn.active)
        attr.max_rd_atomic = conn.initiator_depth;
    // INIT again: sets the port and the P_Key of the route.
    if (state == IBV_QPS_INIT)
        mask &= IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    return ibv_modify_qp(ep.qp, &attr, mask);
}

} // namespace

/// Moves the QP to RTS, for a connection whose parameters rdma_cm knows. 0 or an errno.
int qp_to_rts(dapl_ep &ep, connection &conn) noexcept {
    if (ep.ia->dev->iwarp)
        return 0;
    const std::lock_guard request_guard(ep.requests.lock), recv_guard(ep.receives.lock);
    if (ep.qp == nullptr)
        return EINVAL;
    for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
        if (const int error = modify_qp_state(ep, conn, state))
            return error;
    return 0;
}

} // namespace coherdma::dapl::cm

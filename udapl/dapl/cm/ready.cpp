// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A queue pair on its way to its peer. The connection manager says what each step needs; with iWARP
// the kernel takes the steps itself.

#include "../ia.hpp"
#include "../settings.hpp"
#include "connection.hpp"

#include <cerrno>

namespace coherdma::dapl::cm {

namespace {

int move(ep &one, connection &by, ibv_qp_state to) noexcept {
    ibv_qp_attr attr = {};
    int mask = 0;
    attr.qp_state = to;
    if (rdma_init_qp_attr(by.id, &attr, &mask) != 0)
        return errno;
    if (to == IBV_QPS_RTR) {
        attr.min_rnr_timer = settings::rnr_timer();
        if (!by.active)
            attr.max_dest_rd_atomic = by.responder;
    }
    if (to == IBV_QPS_RTS && !by.active)
        attr.max_rd_atomic = by.initiator;
    // To INIT again for the port and the partition that the route has.
    if (to == IBV_QPS_INIT)
        mask &= IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    return ibv_modify_qp(one.qp, &attr, mask);
}

} // namespace

int make_ready(ep &one, connection &by) noexcept {
    if (one.home->on->iwarp)
        return 0;
    const holding requests(one.requests.guard), receives(one.receives.guard);
    if (one.qp == nullptr)
        return EINVAL;
    for (const ibv_qp_state each : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS})
        if (const int error = move(one, by, each))
            return error;
    return 0;
}

} // namespace coherdma::dapl::cm

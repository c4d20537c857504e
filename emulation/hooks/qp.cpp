// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Creation and destruction of QPs and SRQs, with their pending work requests.

#include "device_shim.hpp"
#include "wr_api.hpp"

namespace coherdma::emulation {
namespace {

void add_qp(emulated_device &device, ibv_qp *qp, bool is_sig_all) {
    const std::unique_lock guard(device.mutex);
    if (is_sig_all)
        device.sig_all_qps.insert(qp);
}

ibv_qp *create_qp(ibv_pd *pd, ibv_qp_init_attr *attr) noexcept {
    emulated_device &device = *find_device(pd->context);
    const bool is_sig_all = attr->sq_sig_all != 0;
    ibv_qp *const qp = device.driver_ops.create_qp(pd, attr);
    if (qp != nullptr)
        add_qp(device, qp, is_sig_all);
    return qp;
}

/// Called in place of the driver's: hooks the ibv_wr_* functions of the QP, if it has them.
ibv_qp *create_qp_ex(ibv_context *ctx, ibv_qp_init_attr_ex *attr) noexcept {
    emulated_device &device = *find_device(ctx);
    const bool is_sig_all = attr->sq_sig_all != 0;
    const bool has_wr_api = (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
    ibv_qp *const qp = device.driver_ops.create_qp_ex(ctx, attr);
    if (qp == nullptr)
        return nullptr;
    add_qp(device, qp, is_sig_all);
    if (has_wr_api)
        hook_wr_api(device, qp);
    return qp;
}

/// Called in place of the driver's: a reset drops the QP's WRs.
int modify_qp(ibv_qp *qp, ibv_qp_attr *attr, int attr_mask) noexcept {
    emulated_device &device = *find_device(qp->context);
    const int error = device.driver_ops.modify_qp(qp, attr, attr_mask);
    if (error == 0 && (attr_mask & IBV_QP_STATE) != 0 && attr->qp_state == IBV_QPS_RESET)
        device.pending_wrs.remove_queue(qp);
    return error;
}

/// Called in place of the driver's. Drops the QP's WRs.
int destroy_qp(ibv_qp *qp) noexcept {
    emulated_device &device = *find_device(qp->context);
    if (const int error = device.driver_ops.destroy_qp(qp))
        return error;
    device.pending_wrs.remove_queue(qp);
    const std::unique_lock guard(device.mutex);
    device.sig_all_qps.erase(qp);
    device.qp_ex_states.erase(qp);
    return 0;
}

int destroy_srq(ibv_srq *srq) noexcept {
    emulated_device &device = *find_device(srq->context);
    if (const int error = device.driver_ops.destroy_srq(srq))
        return error;
    device.pending_wrs.remove_queue(srq);
    return 0;
}

} // namespace

void hook_qp_ops(abi::verbs_context_ops &ops) {
    ops.create_qp = create_qp;
    ops.create_qp_ex = create_qp_ex;
    ops.modify_qp = modify_qp;
    ops.destroy_qp = destroy_qp;
    ops.destroy_srq = destroy_srq;
}

} // namespace coherdma::emulation

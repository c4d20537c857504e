// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "objects.hpp"

namespace coherdma::provider::rxe {
namespace {

void free_context(ibv_context *context) noexcept {
    to_rxe_context(context).qps.destroy();
    abi::uninit_and_free_context(context);
}

} // namespace

abi::verbs_context_ops make_context_ops() noexcept {
    abi::verbs_context_ops ops = {};
    fill_context_ops(ops);
    ops.free_context = free_context;
    fill_pd_ops(ops);
    provider::fill_mr_ops(ops); // those that rxe and siw share
    fill_ah_ops(ops);
    fill_cq_ops(ops);
    fill_mr_ops(ops);
    fill_mw_ops(ops);
    fill_post_ops(ops);
    fill_qp_ops(ops);
    fill_srq_ops(ops);
    ops.attach_mcast = libibverbs().ibv_cmd_attach_mcast;
    ops.detach_mcast = libibverbs().ibv_cmd_detach_mcast;
    return ops;
}

namespace {

ibv_context *open_context(ibv_device *device, int cmd_fd) noexcept {
    auto *const context = abi::init_and_alloc_context<rxe_context>(device, cmd_fd, RDMA_DRIVER_RXE);
    if (context == nullptr)
        return nullptr;
    context->qps.init();
    return &context->verbs;
}

} // namespace

verbs_context *alloc_context(ibv_device *device, int cmd_fd, void *) noexcept {
    return init_context(open_context(device, cmd_fd), make_context_ops());
}

verbs_context *import_context(ibv_device *device, int cmd_fd) noexcept {
    return init_imported_context(open_context(device, cmd_fd), make_context_ops());
}

} // namespace coherdma::provider::rxe

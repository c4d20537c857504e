// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "objects.hpp"

namespace coherdma::provider::rxe {
abi::verbs_context_ops make_context_ops() noexcept {
    abi::verbs_context_ops ops = {};
    fill_context_ops(ops);
    fill_pd_ops(ops);
    provider::fill_mr_ops(ops);
    fill_ah_ops(ops);
    fill_cq_ops(ops);
    fill_mr_ops(ops);
    fill_multicast_ops(ops);
    fill_mw_ops(ops);
    fill_post_ops(ops);
    fill_qp_ops(ops);
    fill_srq_ops(ops);
    return ops;
}

namespace {

rxe_context *open_context(ibv_device *device, int cmd_fd) noexcept {
    auto *const context = abi::init_and_alloc_context<rxe_context>(device, cmd_fd, RDMA_DRIVER_RXE);
    if (context != nullptr)
        context->qps.init();
    return context;
}

} // namespace

verbs_context *alloc_context(ibv_device *device, int cmd_fd, void *) noexcept {
    rxe_context *const context = open_context(device, cmd_fd);
    return context != nullptr ? init_context(&context->verbs, RDMA_DRIVER_RXE, make_context_ops())
                              : nullptr;
}

verbs_context *import_context(ibv_device *device, int cmd_fd) noexcept {
    rxe_context *const context = open_context(device, cmd_fd);
    return context != nullptr
               ? init_imported_context(&context->verbs, RDMA_DRIVER_RXE, make_context_ops())
               : nullptr;
}

} // namespace coherdma::provider::rxe

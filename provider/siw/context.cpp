// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "objects.hpp"

namespace coherdma::provider::siw {
namespace {

void free_context(ibv_context *context) noexcept {
    siw_context &siw_context = to_siw_context(context);
    if (siw_context.event_pd != nullptr)
        ibv_dealloc_pd(siw_context.event_pd);
    siw_context.qps.destroy();
    abi::uninit_and_free_context(context);
}

} // namespace

abi::verbs_context_ops make_context_ops() noexcept {
    abi::verbs_context_ops ops = {};
    fill_context_ops(ops);
    ops.free_context = free_context;
    fill_pd_ops(ops);
    provider::fill_mr_ops(ops); // those that rxe and siw share
    fill_cq_ops(ops);
    fill_mr_ops(ops);
    fill_post_ops(ops);
    fill_qp_ops(ops);
    fill_srq_ops(ops);
    return ops;
}

namespace {

ibv_context *open_context(ibv_device *device, int cmd_fd) noexcept {
    auto *const context = abi::init_and_alloc_context<siw_context>(device, cmd_fd, RDMA_DRIVER_SIW);
    if (context == nullptr)
        return nullptr;
    context->qps.init();
    context->event_mutex.init();
    return &context->verbs;
}

} // namespace

verbs_context *alloc_context(ibv_device *device, int cmd_fd, void *) noexcept {
    return init_context(open_context(device, cmd_fd), make_context_ops());
}

verbs_context *import_context(ibv_device *device, int cmd_fd) noexcept {
    return init_imported_context(open_context(device, cmd_fd), make_context_ops());
}

} // namespace coherdma::provider::siw

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "objects.hpp"

namespace coherdma::provider::rxe {
namespace {

abi::operations all_operations() noexcept {
    abi::operations able = {};
    fill_context(able);
    fill_domain(able);
    provider::fill_region(able);
    fill_handle(able);
    fill_multicast(able);
    fill_pair(able);
    fill_post(able);
    fill_queue(able);
    fill_region(able);
    fill_shared(able);
    fill_window(able);
    return able;
}

context *make(ibv_device *device, int fd) noexcept {
    auto *const own = abi::open_context<context>(device, fd, RDMA_DRIVER_RXE);
    if (own != nullptr)
        own->all.init();
    return own;
}

} // namespace

verbs_context *open(ibv_device *device, int fd, void *) noexcept {
    context *const own = make(device, fd);
    return own != nullptr ? serve(&own->verbs, RDMA_DRIVER_RXE, all_operations()) : nullptr;
}

verbs_context *import(ibv_device *device, int fd) noexcept {
    context *const own = make(device, fd);
    return own != nullptr ? serve_imported(&own->verbs, RDMA_DRIVER_RXE, all_operations())
                          : nullptr;
}

} // namespace coherdma::provider::rxe

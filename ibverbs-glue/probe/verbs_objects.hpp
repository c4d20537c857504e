// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Owning pointers to verbs objects, and what both kinds of loopback do with them.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <infiniband/verbs.h>
#include <memory>
#include <span>

namespace coherdma::probe {

template <auto destroy>
struct destroy_with {
    template <typename Object>
    void operator()(Object *object) const noexcept {
        static_cast<void>(destroy(object));
    }
};
template <typename Object, auto destroy>
using unique_object = std::unique_ptr<Object, destroy_with<destroy>>;

using unique_pd = unique_object<ibv_pd, ibv_dealloc_pd>;
using unique_cq = unique_object<ibv_cq, ibv_destroy_cq>;
using unique_mr = unique_object<ibv_mr, ibv_dereg_mr>;
using unique_qp = unique_object<ibv_qp, ibv_destroy_qp>;

/// Throws std::system_error: "ACTION: the error's text".
[[noreturn]] void throw_error(int error, const char *action);

/// Returns the object. Throws with errno if it is NULL.
template <typename Object>
Object *throw_if_null(Object *object, const char *action) {
    if (!object)
        throw_error(errno, action);
    return object;
}

unique_mr register_memory(ibv_pd *pd, std::span<std::uint64_t> memory);

/// An RC QP with room for one transfer.
ibv_qp_init_attr make_qp_init_attr(ibv_cq *cq);

/// Reads the source MR into the sink MR and waits for completion: 0, ETIMEDOUT, or EIO.
int rdma_read(ibv_qp *qp, ibv_cq *cq, const ibv_mr *source, const ibv_mr *sink,
              std::chrono::milliseconds timeout);

} // namespace coherdma::probe

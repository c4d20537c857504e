// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Verbs objects that go with their owner, and what both kinds of loopback do with them.
#pragma once

#include <chrono>
#include <cstdint>
#include <infiniband/verbs.h>
#include <memory>
#include <span>

namespace coherdma::probe {

template <auto release>
struct releases {
    template <typename Object>
    void operator()(Object *object) const noexcept {
        static_cast<void>(release(object));
    }
};
template <typename Object, auto release>
using owned = std::unique_ptr<Object, releases<release>>;

using owned_domain = owned<ibv_pd, ibv_dealloc_pd>;
using owned_queue = owned<ibv_cq, ibv_destroy_cq>;
using owned_region = owned<ibv_mr, ibv_dereg_mr>;
using owned_pair = owned<ibv_qp, ibv_destroy_qp>;

/// Throws std::system_error with the error and what was tried.
[[noreturn]] void throw_error(int error, const char *what);

/// The object, or throws with errno.
template <typename Object>
Object *got(Object *object, const char *what) {
    if (!object)
        throw_error(errno, what);
    return object;
}

owned_region register_memory(ibv_pd *domain, std::span<std::uint64_t> memory);

/// What queue pair is wanted: a connection with room for one transfer.
ibv_qp_init_attr one_transfer(ibv_cq *queue);

/// Reads all of source into sink and waits for it: 0, ETIMEDOUT, or EIO.
int read_over(ibv_qp *pair, ibv_cq *queue, const ibv_mr *source, const ibv_mr *sink,
              std::chrono::milliseconds patience);

} // namespace coherdma::probe

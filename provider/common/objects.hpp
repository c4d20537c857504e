// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the drivers of rdma_rxe and siw have in common: contexts, domains, and what of memory needs
// nothing of the driver's own. The objects have libibverbs' part first.
#pragma once

#include "abi/abi.hpp"
#include "memory.hpp"
#include "probes.hpp"
#include "turn.hpp"

#include <rdma/ib_user_ioctl_verbs.h>

namespace coherdma::provider {

using abi::library;

template <class own, class core>
own &of(core *object) noexcept {
    return *reinterpret_cast<own *>(object);
}

/// Has the kernel open what abi::open_context() made, and gives it the operations. What
/// alloc_context returns; nullptr: errno says why, and the context is gone.
verbs_context *serve(ibv_context *context, rdma_driver_id driver,
                     const abi::operations &able) noexcept;

/// The same for a context that another process opened; for import_context.
verbs_context *serve_imported(ibv_context *context, rdma_driver_id driver,
                              const abi::operations &able) noexcept;

void fill_context(abi::operations &able) noexcept;
void fill_domain(abi::operations &able) noexcept;
/// But for reg_mr.
void fill_region(abi::operations &able) noexcept;

/// Whether whoever uses an object of this domain has promised to do so by one thread at a time.
bool alone(ibv_pd *domain) noexcept;

/// A completion queue's: 0, or an errno if such a one cannot be.
int wish_of(const ibv_cq_init_attr_ex &wanted, bool &alone) noexcept;

} // namespace coherdma::provider

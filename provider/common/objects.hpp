// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What both drivers use: contexts, PDs, and the MR operations that are the same for both. Each of
// the drivers' objects begins with the object of libibverbs.
#pragma once

#include "abi/abi.hpp"
#include "calloc_ptr.hpp"
#include "spinlock.hpp"
#include "trace.hpp"

#include <cerrno>
#include <cstddef>
#include <rdma/ib_user_ioctl_verbs.h>

namespace coherdma::provider {

using abi::libibverbs;

/// Returns the driver's object that begins with this object of libibverbs.
template <class driver_object, class verbs_object>
driver_object &container_of(verbs_object *object) noexcept {
    return *reinterpret_cast<driver_object *>(object);
}

/// Sets errno and returns nullptr.
inline std::nullptr_t fail_with(int error) noexcept {
    errno = error;
    return nullptr;
}

/// Reports the WR that failed, unless the consumer does not ask for it.
template <class wr_type>
void set_bad_wr(wr_type **bad_wr, wr_type *wr) noexcept {
    if (bad_wr != nullptr)
        *bad_wr = wr;
}

/// Finishes what abi::init_and_alloc_context() began: has the kernel open the context, and sets its
/// operations. Returns what alloc_context returns. If that fails, frees the context, sets errno and
/// returns nullptr; also returns nullptr if context is nullptr.
verbs_context *init_context(ibv_context *context, const abi::verbs_context_ops &ops) noexcept;

/// The same for import_context, which imports a context that another process opened.
verbs_context *init_imported_context(ibv_context *context,
                                     const abi::verbs_context_ops &ops) noexcept;

void fill_context_ops(abi::verbs_context_ops &ops) noexcept;
void fill_pd_ops(abi::verbs_context_ops &ops) noexcept;
/// All MR operations but reg_mr.
void fill_mr_ops(abi::verbs_context_ops &ops) noexcept;

/// Whether the consumer has promised to use the objects of this PD from one thread at a time.
bool is_single_threaded(ibv_pd *pd) noexcept;

/// Checks the attributes of a CQ and sets single_threaded. Returns 0 or an errno.
int check_cq_attr(const ibv_cq_init_attr_ex &attr, bool &single_threaded) noexcept;

} // namespace coherdma::provider

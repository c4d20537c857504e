// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Atomic writes and flushes of a peer's memory: libcoherdma's, for endpoints. Every transport has
// them in some way.
#pragma once

#include <cstdarg>
#include <dat2/dat_coherdma_extensions.h>

namespace coherdma::dapl::extensions {

DAT_RETURN atomic_write(DAT_EP_HANDLE ep_handle, const void *value, const DAT_LMR_TRIPLET *old,
                        DAT_DTO_COOKIE cookie, const DAT_RMR_TRIPLET *remote,
                        DAT_COMPLETION_FLAGS flags) noexcept;
DAT_RETURN flush(DAT_EP_HANDLE ep_handle, const DAT_LMR_TRIPLET *scratch, DAT_DTO_COOKIE cookie,
                 const DAT_RMR_TRIPLET *remote, DAT_COMPLETION_FLAGS flags) noexcept;
DAT_RETURN ways(DAT_EP_HANDLE ep_handle, DAT_COHERDMA_WAYS *to) noexcept;

/// Whether it is one of them, by dat_extension_op.
bool is_remote(DAT_EXTENDED_OP operation) noexcept;
DAT_RETURN operate_remote(DAT_HANDLE handle, DAT_EXTENDED_OP operation,
                          std::va_list arguments) noexcept;

} // namespace coherdma::dapl::extensions

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Atomic writes and flushes of a peer's memory: libcoherdma's, for EPs of any transport.
#pragma once

#include <cstdarg>
#include <dat2/dat_coherdma_extensions.h>

namespace coherdma::dapl::extensions {

/// compare: the expected value, if the method is a compare-and-swap; may be NULL otherwise.
DAT_RETURN atomic_write(DAT_EP_HANDLE ep_handle, const void *value, const DAT_LMR_TRIPLET *compare,
                        DAT_DTO_COOKIE user_cookie, const DAT_RMR_TRIPLET *remote,
                        DAT_COMPLETION_FLAGS flags) noexcept;
/// scratch: where a flush stores the bytes that it reads of the range.
DAT_RETURN flush(DAT_EP_HANDLE ep_handle, const DAT_LMR_TRIPLET *scratch,
                 DAT_DTO_COOKIE user_cookie, const DAT_RMR_TRIPLET *remote,
                 DAT_COMPLETION_FLAGS flags) noexcept;
DAT_RETURN query_methods(DAT_EP_HANDLE ep_handle, DAT_COHERDMA_METHODS *methods) noexcept;

/// The operations of dat_extension_op that these functions implement.
/// Atomic write, flush, and the query of their methods.
bool is_remote_op(DAT_EXTENDED_OP operation) noexcept;
DAT_RETURN remote_op(DAT_HANDLE handle, DAT_EXTENDED_OP operation, std::va_list args) noexcept;

} // namespace coherdma::dapl::extensions

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Atomic writes and flushes of a peer's memory: libcoherdma's, for endpoints. Every transport has
// them in some way.
#pragma once

#include <cstdarg>
#include <dat2/udat.h>

namespace coherdma::dapl::extensions {

/// Whether it is one of these operations.
bool is_remote(DAT_EXTENDED_OP operation) noexcept;
DAT_RETURN operate_remote(DAT_HANDLE handle, DAT_EXTENDED_OP operation,
                          std::va_list arguments) noexcept;

} // namespace coherdma::dapl::extensions

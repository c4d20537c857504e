// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dat_extension_op. The DAT_IB extensions (Write with immediate data, atomic operations, UD) need
// InfiniBand or RoCE.
#pragma once

#include <cstdarg>
#include <dat2/udat.h>

namespace coherdma::dapl::extensions {

DAT_RETURN extended_op(DAT_HANDLE handle, DAT_EXTENDED_OP operation, std::va_list args) noexcept;

} // namespace coherdma::dapl::extensions

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Operations that InfiniBand and RoCE have and DAT 2.0 has no words for: Writes with immediate data
// and atomic operations, by dat_extension_op.
#pragma once

#include <cstdarg>
#include <dat2/udat.h>
#include <infiniband/verbs.h>

namespace coherdma::dapl {

struct device;
struct record;

namespace extensions {

bool atomics(const device &on) noexcept;

/// An event of more than DAT's own kind.
void tell(const ibv_wc &completion, const record &of, DAT_EVENT &event) noexcept;

DAT_RETURN operate(DAT_HANDLE handle, DAT_EXTENDED_OP operation, std::va_list arguments) noexcept;

} // namespace extensions
} // namespace coherdma::dapl

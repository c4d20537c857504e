// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dat_extension_op. The DAT_IB extensions (Write with immediate data, atomic operations, UD) need
// InfiniBand or RoCE.
#pragma once

#include <cstdarg>
#include <dat2/udat.h>
#include <infiniband/verbs.h>

namespace coherdma::dapl {

struct device;
struct dto_cookie;

namespace extensions {

bool has_atomics(const device &dev) noexcept;

/// Completes the event of an extension's operation, or of a Receive with immediate data.
void set_extension_event(const ibv_wc &wc, const dto_cookie &cookie, DAT_EVENT &event) noexcept;

DAT_RETURN extended_op(DAT_HANDLE handle, DAT_EXTENDED_OP operation, std::va_list args) noexcept;

} // namespace extensions
} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

namespace coherdma::registry {

/// Whether the eight bytes at an address that is a multiple of 8 can be read. The kernel is asked,
/// nothing is touched: it costs a system call, and no address is too strange.
[[gnu::cold]] bool readable(const void *address) noexcept;

} // namespace coherdma::registry

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

namespace coherdma::registry {

/// Whether the 8 bytes at the address, a multiple of 8, can be read. A system call, for any
/// address; the memory is not changed. errno is preserved.
[[gnu::cold]] bool is_readable(const void *address) noexcept;

} // namespace coherdma::registry

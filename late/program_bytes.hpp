// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Memory of the program that may be unmapped, or protected by the checker: the kernel copies it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace coherdma::late {

/// coherdma_check_lend() of the checker, which may have protected the memory. nullptr: there is no
/// checker. Set before the first copy.
using lend_function = bool(std::uintptr_t begin, std::uintptr_t end, void (*copy)(void *),
                           void *arg);
inline constinit lend_function *lend = nullptr;

/// Copies the program's bytes at addr. False: they cannot be read.
bool read_program(std::uintptr_t addr, std::byte *bytes, std::size_t length) noexcept;
/// Overwrites the program's bytes at addr, as far as it has memory there.
void write_program(std::uintptr_t addr, const std::byte *bytes, std::size_t length) noexcept;

} // namespace coherdma::late

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The library that is preloaded into a program with the memory sanitizer.
#pragma once

#include <cstddef>

namespace coherdma::check {

/// RDMA libraries that are loaded, and drivers. LD_BIND_NOW has bound their functions.
void bind_libraries() noexcept;
/// Nothing, if the program does not have the sanitizer.
void mark_initialized(const void *memory, std::size_t length) noexcept;

} // namespace coherdma::check

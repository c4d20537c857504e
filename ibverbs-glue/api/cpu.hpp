// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "cache/cache.hpp"

#include <cstdint>

namespace coherdma::api {

/// Which cache instructions to use.
struct ops_choice {
    const cache::cache_ops *ops; ///< nullptr: none usable
    const char *problem;         ///< the reason if none is usable, else ""
};

/// The cache_ops that COHERDMA_CACHE names, or the best. Determined once.
const ops_choice &default_ops() noexcept;

/// The cache_ops of that name; the best usable ones if it is NULL or "".
ops_choice find_ops(const char *name) noexcept;

/// The names of all usable cache_ops, best first, separated by spaces.
const char *usable_ops_names();

/// The alignment for buffers that share nothing with other data that the CPU writes back together:
/// the line size or the CPU's write-back granule, but at least the 128 bytes of arm64 and POWER, so
/// that a program's layout is the same on most machines.
std::size_t buffer_alignment(std::size_t line_size) noexcept;

} // namespace coherdma::api

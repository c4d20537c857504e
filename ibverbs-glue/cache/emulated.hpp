// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A cache that is not the CPU's but played by a module, for a device of its process. Who syncs for
// such a device finds it by the name of this struct's one object.
#pragma once

#include "cache.hpp"

#include <cstdint>

struct ibv_context;

namespace coherdma::cache {

struct emulated {
    std::uint32_t size; ///< of this struct, as a version
    bool (*plays)(const ibv_context *) noexcept;
    /// 0, or an errno: then *where, in one of the ranges, is not there.
    int (*check)(const range *, std::size_t count, std::uintptr_t *where) noexcept;
    const char *(*mode)() noexcept;
    std::size_t (*line)() noexcept;
    const path *way;
};

inline constexpr const char *emulation_file = "libcoherdma-emulation.so";
inline constexpr const char *emulation_name = "coherdma_emulation";

} // namespace coherdma::cache

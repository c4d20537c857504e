// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The interface between libcoherdma and the emulation module, which emulates a cache for devices of
// its process.
#pragma once

#include "cache.hpp"

#include <cstdint>

struct ibv_context;

namespace coherdma::cache {

struct emulated_cache {
    std::uint32_t size; ///< of this struct, as a version
    /// 0, or an errno; then *addr in one of the ranges is not mapped.
    int (*check_mapped)(const range *, std::size_t count, std::uintptr_t *addr) noexcept;
    const char *(*mode)() noexcept;
    std::size_t (*line_size)() noexcept;
    const cache_ops *ops;
    /// The syncs of local memory, which the emulation tells from those of remote access.
    void (*sync_for_device)(const range *, std::size_t count, bool device_writes) noexcept;
    void (*sync_for_cpu)(const range *, std::size_t count) noexcept; ///< the device has written
};

/// Exported by the module, extern "C": nullptr if the context is not emulated.
using find_emulated_cache_function = const emulated_cache *(const ibv_context *);
inline constexpr const char *find_emulated_cache_name = "coherdma_find_emulated_cache";
inline constexpr const char *emulation_soname = "libcoherdma-emulation.so";

} // namespace coherdma::cache

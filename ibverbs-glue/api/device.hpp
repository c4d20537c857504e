// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "cache/emulated_cache.hpp"
#include "coherency/rules.hpp"

#include <cstdint>
#include <string>

/// Constant after open, so threads need no lock. The members that each sync uses are first.
struct coherdma_device {
    const coherdma::cache::cache_ops *ops = nullptr; ///< nullptr: sync fails
    std::size_t line_size = 0;                       ///< of the cache, in bytes; 0: unknown
    /// Checks that ranges are mapped: 0, or an errno value with coherdma_error() set. nullptr: no
    /// check.
    int (*check_memory)(const coherdma_device &, const coherdma::cache::range *,
                        std::size_t) noexcept = nullptr;
    const coherdma::cache::emulated_cache *emulated = nullptr; ///< nullptr: not emulated
    bool is_emulated = false;
    bool sync_required = false;
    std::size_t buffer_alignment = 0; ///< other data must not share it, in bytes
    std::string sync_problem;         ///< why sync fails, as a sentence; "" if it does not
    std::uint32_t coherency = COHERDMA_UNKNOWN;
    std::string name, driver, transport, explanation;
    std::string kernel_release, machine; ///< as uname -r and -m
    coherdma::coherency::decision decision;
};

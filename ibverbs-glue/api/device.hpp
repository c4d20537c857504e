// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "cache/emulated.hpp"
#include "coherency/verdict.hpp"

#include <cstdint>
#include <string>

/// What the sync calls need comes first. Nothing changes after open, so threads need no lock.
struct coherdma_device {
    const coherdma::cache::path *path = nullptr; ///< nullptr: sync is refused
    std::size_t line = 0;
    /// Of the ranges of a sync: 0, or an errno with coherdma_error() set. nullptr: they are
    /// believed.
    int (*check_memory)(const coherdma_device &, const coherdma::cache::range *,
                        std::size_t) noexcept = nullptr;
    const coherdma::cache::emulated *emulation = nullptr; ///< nullptr: it is not emulated
    bool sync_required = false;
    const char *problem = ""; ///< why sync is refused
    std::uint32_t verdict = COHERDMA_UNKNOWN;
    std::string name, driver, transport, explanation;
    coherdma::coherency::answer answer;
};

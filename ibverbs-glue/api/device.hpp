// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "cache/cache.hpp"
#include "coherency/verdict.hpp"

#include <string>

/// What the sync calls need comes first. Nothing changes after open, so threads need no lock.
struct coherdma_device {
    const coherdma::cache::path *path = nullptr; ///< nullptr: sync is refused
    std::size_t line = 0;
    bool check_memory = false;
    bool sync_required = false;
    const char *problem = ""; ///< why sync is refused
    std::uint32_t verdict = COHERDMA_UNKNOWN;
    std::string name, driver, transport, explanation;
    coherdma::coherency::answer answer;
};

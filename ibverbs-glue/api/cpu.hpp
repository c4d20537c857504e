// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "cache/cache.hpp"

#include <cstdint>

namespace coherdma::api {

struct way {
    const cache::path *path; ///< nullptr: there is none
    const char *problem;     ///< then why; else ""
};

/// What COHERDMA_CACHE names, or the best. Found out once.
const way &usual() noexcept;

/// What has that name.
way named(const char *name) noexcept;

/// Names of all that work here, best first, with a space between.
const char *choices();

/// Of a buffer that shares no line with other data: the line, and at least what arm64 and POWER
/// have, so that a program is not laid out differently on every machine.
std::uint32_t alignment(std::size_t line) noexcept;

} // namespace coherdma::api

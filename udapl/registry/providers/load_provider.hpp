// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Selection of the provider library for an IA name.
#pragma once

#include "best_match.hpp"
#include "entries/dat_entries.hpp"
#include "libraries.hpp"

namespace coherdma::registry {

struct loaded_provider {
    provider_library library;
    const char *instance = ""; ///< instance data; points into dat.conf's entries or the devices'
};

/// Loads the library of the first matching entry that can be loaded: of dat.conf, then of the live
/// devices, which are added to devices. On failure library.handle is NULL and status has the
/// reason, for which best must have been compared with the registered providers. Requires
/// registry_lock.
loaded_provider load_provider(const DAT_PROVIDER_INFO &info, dat_entries &devices, best_match &best,
                              DAT_RETURN &status) noexcept;

} // namespace coherdma::registry

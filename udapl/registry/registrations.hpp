// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What is registered: a provider for each name, version and thread safety under which one was
// opened, or that came by itself. All of this under the registry's lock.
#pragma once

#include "dat.hpp"

namespace coherdma::registry {

struct registration {
    DAT_PROVIDER_INFO info = {};
    const DAT_PROVIDER *provider = nullptr; ///< NULL until the library has registered it
    void *library = nullptr;                ///< NULL: it was not loaded by us
    DAT_PROVIDER_FINI_FUNC fini = nullptr;
    char *instance = nullptr; ///< what it was told; a library may keep the pointer
    unsigned opens = 0;       ///< by IAs, and by what dat_extension_op opens
    unsigned queries = 0;     ///< of these, the latter
    registration *next = nullptr;
};

/// What is looked for. A name that is too long makes it false.
bool make_info(const char *name, DAT_UINT32 major, DAT_UINT32 minor, DAT_BOOLEAN thread_safe,
               DAT_PROVIDER_INFO &into) noexcept;

/// Counts one more who has it open, and loads it for the first. NULL: status says why.
registration *open_provider(const DAT_PROVIDER_INFO &wanted, DAT_RETURN &status) noexcept;

/// Unloads it with the last.
void close_provider(registration *which) noexcept;

/// Of which a query is open by dat_extension_op; NULL if there is none.
registration *queried(const DAT_PROVIDER *provider) noexcept;

} // namespace coherdma::registry

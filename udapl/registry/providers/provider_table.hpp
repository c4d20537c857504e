// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The registered providers, by name, version and thread safety: those that the registry has loaded
// for an open, and those that the program has registered. Functions that take an entry or return
// one require registry_lock.
#pragma once

#include "dat.hpp"

namespace coherdma::registry {

struct provider_entry {
    DAT_PROVIDER_INFO info = {};
    const DAT_PROVIDER *provider = nullptr; ///< NULL until the library has registered it
    void *library = nullptr;                ///< dlopen handle; NULL if the program registered it
    DAT_PROVIDER_FINI_FUNC fini = nullptr;
    char *instance = nullptr; ///< instance data; the library may keep the pointer
    unsigned num_opens = 0;   ///< open IAs and queries
    unsigned num_queries = 0; ///< queries that dat_extension_op has opened
    provider_entry *next = nullptr;
};

/// Returns false if the name is NULL or too long.
bool make_provider_info(const char *name, DAT_UINT32 major, DAT_UINT32 minor,
                        DAT_BOOLEAN thread_safe, DAT_PROVIDER_INFO &info) noexcept;

/// Increments num_opens; the first open loads the library. Returns NULL and sets status on failure.
provider_entry *open_provider(const DAT_PROVIDER_INFO &info, DAT_RETURN &status) noexcept;

/// Decrements num_opens; the last close unloads the library.
void close_provider(provider_entry *entry) noexcept;

/// The entry of a provider that has a query open; NULL if it has none.
provider_entry *find_open_query(const DAT_PROVIDER *provider) noexcept;

} // namespace coherdma::registry

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A name under which the registry has initialised this library: one table of functions for each,
// since a registry tells them apart by their table. They are never freed: handles point to them.
#pragma once

#include <array>
#include <dat2/dat_registry.h>
#include <dat2/udat.h>
#include <string>

namespace coherdma::dapl {

struct instance {
    /// Its address is a handle's first word. What is there is the face's: for DAT 1.2 another
    /// table, so nobody here looks.
    const DAT_PROVIDER *table;
    DAT_PROVIDER_INFO info;
    std::string device; ///< the words of dat.conf
    /// The registry's word for a handle, NULL where it has none.
    DAT_RETURN (*public_handle)(DAT_IA_HANDLE, DAT_IA_HANDLE *);
    bool ready;
    bool tells_ro_aware; ///< the registry gives the last argument of 1.2's ia_open_func
    instance *next;
};

/// Its registry is one of DAT 1.2 (else of 2.0).
inline bool is_of_dat1(const DAT_PROVIDER_INFO &info) noexcept {
    return info.dapl_version_major == 1;
}

/// One of this name and for such a registry that is initialised, or nullptr; best of that thread
/// safety.
instance *find_instance(const char *name, DAT_UINT32 version, DAT_BOOLEAN thread_safe) noexcept;

} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// One call of dat_provider_init: an IA name and its table of functions. Every instance has a table
// of its own, since a registry distinguishes providers by the table's address. Instances are never
// freed: handles point to their tables.
#pragma once

#include <array>
#include <dat2/dat_registry.h>
#include <dat2/udat.h>
#include <string>

namespace coherdma::dapl {

struct instance {
    /// Word 0 of handles. Points to a dat1::provider if the registry is one of DAT 1.2, so only the
    /// registry reads it.
    const DAT_PROVIDER *table;
    DAT_PROVIDER_INFO info;
    std::string instance_data; ///< the instance data of dat.conf
    /// The registry's dats_get_ia_handle, which converts an IA's handle to the consumer's; NULL if
    /// it has none.
    DAT_RETURN (*get_ia_handle)(DAT_IA_HANDLE, DAT_IA_HANDLE *);
    bool initialized;     ///< dat_provider_init was called, and not dat_provider_fini since
    bool passes_ro_aware; ///< the registry passes the last argument of DAT 1.2's ia_open_func
    instance *next;
};

/// The registry is one of DAT 1.2, otherwise of 2.0.
inline bool is_dat1(const DAT_PROVIDER_INFO &info) noexcept {
    return info.dapl_version_major == 1;
}

/// The initialized instance of this name for a registry of this version, or nullptr. If there are
/// two, the one with this thread safety.
instance *find_instance(const char *name, DAT_UINT32 version, DAT_BOOLEAN thread_safe) noexcept;

} // namespace coherdma::dapl

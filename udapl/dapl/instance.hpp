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
    DAT_PROVIDER table; // first: the address is a handle's first word
    DAT_PROVIDER_INFO info;
    std::string device; ///< the words of dat.conf
    /// The registry's word for a handle, NULL where it has none.
    DAT_RETURN (*public_handle)(DAT_IA_HANDLE, DAT_IA_HANDLE *);
    bool ready;
    instance *next;
};

/// One of this name that is initialised, or nullptr; best of that thread safety.
instance *find_instance(const char *name, DAT_BOOLEAN thread_safe) noexcept;

} // namespace coherdma::dapl

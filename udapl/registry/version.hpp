// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What each version of the registry has in its own way: dat1/version.cpp and dat2/version.cpp.
#pragma once

#include "dat.hpp"

#include <cstddef>
#include <initializer_list>

struct coherdma_port;

namespace coherdma::registry {

/// How the library is called, for messages.
extern const char LIBRARY[];

/// Where dat.conf may be; the first that there is counts.
extern const std::initializer_list<const char *> CONF_FILES;

/// Whether dat_registry_list_providers names IAs that only the other version's programs can open.
extern const bool LISTS_OTHER_VERSIONS;

/// What a port is called in old configurations; "" is no name. before: how many ports with a
/// network interface come before it.
using old_name = char[DAT_NAME_MAX_LENGTH];
void old_names(const coherdma_port &port, std::size_t before, old_name (&into)[2]) noexcept;

/// The IA that dat_ia_openv is asked for.
struct wish {
    DAT_NAME_PTR name;    ///< as in dat.conf
    DAT_BOOLEAN ro_aware; ///< its program does not rely on the order of a device's writes
};
wish wish_of(DAT_NAME_PTR name) noexcept;

/// By a provider that has the function.
DAT_RETURN call_ia_open(const DAT_PROVIDER &provider, const wish &what, DAT_COUNT qlen,
                        DAT_EVD_HANDLE *evd, DAT_IA_HANDLE *ia) noexcept;

/// An IA is open, and has this number.
void is_opened(DAT_IA_HANDLE handle) noexcept;

} // namespace coherdma::registry

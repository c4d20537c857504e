// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What differs between the registries of DAT 1.2 and 2.0: implemented in dat1/version.cpp and
// dat2/version.cpp.
#pragma once

#include "dat.hpp"

#include <cstddef>
#include <initializer_list>

struct coherdma_port;

namespace coherdma::registry {

/// The prefix of messages.
extern const char LIBRARY_NAME[];

/// Where dat.conf is searched for; the first file that exists is used.
extern const std::initializer_list<const char *> DAT_CONF_PATHS;

/// Whether dat_registry_list_providers lists entries that only programs of the other version can
/// open.
extern const bool LIST_OTHER_VERSION;

/// Sets the names that a port has in dat.conf files of OFED; the others remain "". interface_index:
/// the number of ports with a network interface before this one.
using ofed_names = char[4][DAT_NAME_MAX_LENGTH];
void get_ofed_names(const coherdma_port &port, std::size_t interface_index,
                    ofed_names &names) noexcept;

/// The name argument of dat_ia_openv.
struct ia_name {
    DAT_NAME_PTR name;    ///< as in dat.conf
    DAT_BOOLEAN ro_aware; ///< the program permits relaxed ordering
};
ia_name parse_ia_name(DAT_NAME_PTR name) noexcept;

/// Calls ia_open_func, which must not be NULL.
DAT_RETURN call_ia_open(const DAT_PROVIDER &provider, const ia_name &name, DAT_COUNT qlen,
                        DAT_EVD_HANDLE *evd, DAT_IA_HANDLE *ia) noexcept;

/// Called after an IA was opened.
void notify_ia_open(DAT_IA_HANDLE handle) noexcept;

} // namespace coherdma::registry

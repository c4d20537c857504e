// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Messages of the registry. The environment variable DAT_DBG_TYPE is a sum of message types
// (default 1), DAT_DBG_DEST of destinations (log_line.hpp).
#pragma once

namespace coherdma::registry {

enum class dbg_type : unsigned {
    problem = 0x1,   ///< errors that the administrator can fix
    entries = 0x4,   ///< dat.conf, live devices and loading of libraries
    providers = 0x8, ///< registration of providers
};

bool is_dbg_enabled(dbg_type type) noexcept;

/// Prints one line; format has no line feed. Control and non-ASCII characters are printed as "?".
[[gnu::cold, gnu::format(printf, 2, 3)]] void dbg_print(dbg_type type, const char *format,
                                                        ...) noexcept;

} // namespace coherdma::registry

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The grammar of dat.conf(5). An entry is a line of eight fields:
//
//     ofa-v2-ib0 u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "ib0 0" ""
//
// Fields are separated by blanks and tabs. A field in double quotes may contain blanks or be empty;
// a backslash in it escapes the next character. A # at the start of a field begins a comment. Every
// file that OFED's registry accepts is accepted, with the same meaning.
#pragma once

#include "vector.hpp"

#include <cstdint>

namespace coherdma::registry {

/// How to open an IA name. The strings point into the parsed text.
struct dat_entry {
    const char *name = "";
    std::uint32_t major = 0, minor = 0;
    bool thread_safe = false;
    const char *library = "";
    const char *instance = ""; ///< instance data, passed to dat_provider_init
};

/// Why a line was ignored.
struct parse_error {
    unsigned line = 0;
    const char *field = nullptr;     ///< the invalid one; NULL: the line ends there
    bool unterminated_quote = false; ///< the line ends inside a quoted field
    const char *expected = "";
    /// The value of driver_name=, which is in the place of the IA name in the driver lists from
    /// which datadm of Solaris makes dat.conf; NULL in other lines.
    const char *solaris_driver = nullptr;
};

/// Splits the text in place; text[size] must be writable. Entries with "nondefault" or a kernel API
/// version are skipped. Returns false if memory is exhausted.
bool parse_dat_conf(char *text, std::size_t size, vector<dat_entry> &entries,
                    vector<parse_error> &errors) noexcept;

} // namespace coherdma::registry

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The grammar of dat.conf(5). A record is one line of eight words:
//
//     ofa-v2-ib0 u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "ib0 0" ""
//
// Blanks and tabs are between words. A word in double quotes may have blanks in it, or nothing; in
// there, a backslash has the next character mean itself. Where a word could begin, # begins a
// comment. Everything that OFED's registry accepts is accepted, and means the same.
#pragma once

#include "list.hpp"

#include <cstdint>

namespace coherdma::registry {

/// How a name can be opened. Strings belong to the text that was understood.
struct record {
    const char *name = "";
    std::uint32_t major = 0, minor = 0;
    bool thread_safe = false;
    const char *library = "";
    const char *instance = ""; ///< what the provider is told
};

/// Why a line is left out.
struct mistake {
    unsigned line = 0;
    const char *found = nullptr; ///< NULL: the line ends there
    bool torn = false;           ///< in the middle of a quote
    const char *expected = "";
    /// Of a line that names a driver where others name an IA: its own way on Solaris, of a list
    /// that datadm makes dat.conf from. NULL: it is just wrong.
    const char *driver = nullptr;
};

/// Takes the text apart where it is: its end must be followed by one byte of room. Records that
/// concern nobody here (nondefault, of the kernel's API) are left out. False if there is no memory.
bool parse(char *text, std::size_t size, list<record> &records, list<mistake> &mistakes) noexcept;

} // namespace coherdma::registry

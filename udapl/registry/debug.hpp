// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the registry has to say: DAT_DBG_TYPE in the environment is a sum of the kinds that are
// wanted, 1 if it is not set; DAT_DBG_DEST of where to: 1 is the terminal, 2 is syslog.
//
// OFED's registry writes to the standard output. Ours takes the standard error: no program reads
// these lines, but many a program's output is read by another.
#pragma once

namespace coherdma::registry {

enum class kind : unsigned {
    problem = 0x1,   ///< something is wrong, and a person should mend it
    records = 0x4,   ///< dat.conf, devices, and the loading of libraries
    providers = 0x8, ///< what registers itself
};

bool wanted(kind what) noexcept;

/// One line, without its end. What cannot be printed in it becomes "?".
[[gnu::cold, gnu::format(printf, 2, 3)]] void say(kind what, const char *format, ...) noexcept;

} // namespace coherdma::registry

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Words to those who asked for them as libibverbs has it: VERBS_LOG_LEVEL, a number, and
// VERBS_LOG_FILE, to which lines are added. Without both, or in a program with more rights than its
// user, nothing is said. Its own function for it is not used, for some releases have none.
#pragma once

namespace coherdma::abi {

enum class level : long { error = 1, warning = 2, info = 3, debug = 4 };

/// Adds a line. errno stays as it is.
[[gnu::format(printf, 2, 3)]] void say(level of, const char *format, ...) noexcept;

} // namespace coherdma::abi

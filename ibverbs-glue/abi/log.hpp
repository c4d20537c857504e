// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The log of libibverbs: lines are appended to VERBS_LOG_FILE if VERBS_LOG_LEVEL permits. Both are
// ignored in setuid programs. libibverbs' own function is not used: some releases lack it.
#pragma once

namespace coherdma::abi {

enum class log_level : long { error = 1, warning = 2, info = 3, debug = 4 };

/// Appends a line. Preserves errno.
[[gnu::format(printf, 2, 3)]] void verbs_log(log_level level, const char *format, ...) noexcept;

} // namespace coherdma::abi

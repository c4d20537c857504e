// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Messages of the Provider. The environment variable DAPL_DBG_TYPE is a sum of message types
// (default 3), DAPL_DBG_DEST of destinations (log_line.hpp, default 1).
#pragma once

namespace coherdma::dapl {

enum class log_type : unsigned {
    errors = 0x1,      ///< of the device or the kernel that no DAT error tells
    warnings = 0x2,    ///< settings that have no effect
    connections = 0x8, ///< each event of rdma_cm
};

bool is_logged(log_type type) noexcept;

/// Prints one line, if DAPL_DBG_TYPE selects its type; format has no line feed.
[[gnu::cold, gnu::format(printf, 2, 3)]] void log(log_type type, const char *format, ...) noexcept;

} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "debug.hpp"
#include "log_line.hpp"
#include "version.hpp"

namespace coherdma::registry {

bool is_dbg_enabled(dbg_type type) noexcept {
    return (get_log_setting("DAT_DBG_TYPE", 1) & static_cast<unsigned>(type)) != 0;
}

/// Prints the message where DAT_DBG_DEST says, if DAT_DBG_TYPE selects its type.
void dbg_print(dbg_type type, const char *format, ...) noexcept {
    if (!is_dbg_enabled(type))
        return;
    std::va_list args;
    va_start(args, format);
    print_log_line(LIBRARY_NAME, get_log_setting("DAT_DBG_DEST", TO_STDERR),
                   type == dbg_type::problem ? LOG_ERR : LOG_DEBUG, format, args);
    va_end(args);
}

} // namespace coherdma::registry

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "debug.hpp"
#include "version.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <syslog.h>

namespace coherdma::registry {
namespace {

unsigned long get_setting(const char *variable, unsigned long default_value) noexcept {
    const char *value = secure_getenv(variable);
    return value && *value ? std::strtoul(value, nullptr, 0) : default_value;
}

} // namespace

bool is_dbg_enabled(dbg_type type) noexcept {
    return (get_setting("DAT_DBG_TYPE", 1) & static_cast<unsigned>(type)) != 0;
}

/// Prints the message where DAT_DBG_DEST says, if DAT_DBG_TYPE selects its type.
void dbg_print(dbg_type type, const char *format, ...) noexcept {
    if (!is_dbg_enabled(type))
        return;
    char line[1024];
    std::va_list args;
    va_start(args, format);
    std::vsnprintf(line, sizeof line, format, args);
    va_end(args);
    for (char *c = line; *c; ++c) {
        if (*c < ' ' || *c > '~')
            *c = '?';
    }
    constexpr unsigned long to_stderr = 1, to_syslog = 2;
    const unsigned long dest = get_setting("DAT_DBG_DEST", 1);
    if (dest & to_stderr)
        std::fprintf(stderr, "%s: %s\n", LIBRARY_NAME, line);
    if (dest & to_syslog)
        syslog(type == dbg_type::problem ? LOG_ERR : LOG_DEBUG, "%s: %s", LIBRARY_NAME, line);
}

} // namespace coherdma::registry

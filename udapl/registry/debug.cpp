// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "debug.hpp"
#include "version.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <syslog.h>

namespace coherdma::registry {
namespace {

unsigned long setting(const char *variable, unsigned long otherwise) noexcept {
    const char *value = secure_getenv(variable);
    return value && *value ? std::strtoul(value, nullptr, 0) : otherwise;
}

} // namespace

bool wanted(kind what) noexcept {
    return (setting("DAT_DBG_TYPE", 1) & static_cast<unsigned>(what)) != 0;
}

void say(kind what, const char *format, ...) noexcept {
    if (!wanted(what))
        return;
    char line[1024];
    std::va_list rest;
    va_start(rest, format);
    std::vsnprintf(line, sizeof line, format, rest);
    va_end(rest);
    for (char *each = line; *each; ++each) {
        if (*each < ' ' || *each > '~')
            *each = '?';
    }
    const unsigned long where = setting("DAT_DBG_DEST", 1);
    if (where & 1)
        std::fprintf(stderr, "%s: %s\n", LIBRARY, line);
    if (where & 2)
        syslog(what == kind::problem ? LOG_ERR : LOG_DEBUG, "%s: %s", LIBRARY, line);
}

} // namespace coherdma::registry

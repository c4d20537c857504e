// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Messages of the registries and of the Provider, for the administrator. Environment variables
// select their types, and where they go. The numbers are OFED's, but where OFED writes to standard
// output these use standard error, since standard output belongs to the program.
#pragma once

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <syslog.h>

namespace coherdma {

inline unsigned long get_log_setting(const char *variable, unsigned long default_value) noexcept {
    const char *const value = secure_getenv(variable);
    return value != nullptr && *value != '\0' ? std::strtoul(value, nullptr, 0) : default_value;
}

/// The destinations of messages, a sum.
constexpr unsigned long TO_STDERR = 1, TO_SYSLOG = 2;

/// Prints one line; format has no line feed. Control and non-ASCII characters are printed as "?".
[[gnu::cold, gnu::format(printf, 4, 0)]] inline void
print_log_line(const char *library, unsigned long destinations, int priority, const char *format,
               std::va_list args) noexcept {
    char line[1024];
    std::vsnprintf(line, sizeof line, format, args);
    for (char *c = line; *c != '\0'; ++c) {
        if (*c < ' ' || *c > '~')
            *c = '?';
    }
    if ((destinations & TO_STDERR) != 0)
        std::fprintf(stderr, "%s: %s\n", library, line);
    if ((destinations & TO_SYSLOG) != 0)
        syslog(priority, "%s: %s", library, line);
}

} // namespace coherdma

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "log.hpp"

#include "fork_guard.hpp"
#include "log_line.hpp"

namespace coherdma::dapl {

// The environment is read once: a program may change it while the event thread prints.

bool is_logged(log_type type) noexcept {
    constexpr unsigned DEFAULT_TYPES =
        static_cast<unsigned>(log_type::errors) | static_cast<unsigned>(log_type::warnings);
    static const unsigned long types = get_log_setting("DAPL_DBG_TYPE", DEFAULT_TYPES);
    return (types & static_cast<unsigned>(type)) != 0;
}

void log(log_type type, const char *format, ...) noexcept {
    if (!is_logged(type))
        return;
    const fork_guard guard; // syslog() has a lock
    static const unsigned long destinations = get_log_setting("DAPL_DBG_DEST", TO_STDERR);
    std::va_list args;
    va_start(args, format);
    print_log_line("libdaplcoherdma", destinations, type == log_type::errors ? LOG_ERR : LOG_INFO,
                   format, args);
    va_end(args);
}

} // namespace coherdma::dapl

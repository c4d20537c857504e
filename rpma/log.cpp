// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "log.hpp"

#include <array>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <syslog.h>
#include <unistd.h>

namespace coherdma::rpma {

namespace {

struct level_attr {
    const char *name;
    int priority; ///< of syslog()
};
constexpr std::array<level_attr, 6> LEVELS = {{
    {.name = "*FATAL* ", .priority = LOG_CRIT},
    {.name = "*ERROR* ", .priority = LOG_ERR},
    {.name = "*WARN*  ", .priority = LOG_WARNING},
    {.name = "*NOTE*  ", .priority = LOG_NOTICE},
    {.name = "*INFO*  ", .priority = LOG_INFO},
    {.name = "*DEBUG* ", .priority = LOG_DEBUG},
}};
static_assert(LEVELS.size() == RPMA_LOG_LEVEL_DEBUG + 1);

std::atomic<rpma_log_level> stderr_threshold = RPMA_LOG_DISABLED;

std::atomic<rpma_log_level> *to_threshold(rpma_log_threshold threshold) noexcept {
    switch (threshold) {
    case RPMA_LOG_THRESHOLD:
        return &log_threshold;
    case RPMA_LOG_THRESHOLD_AUX:
        return &stderr_threshold;
    default:
        return nullptr;
    }
}

/// Local time with microseconds, in `text`.
void format_time(char *text, std::size_t size) noexcept {
    timespec now = {};
    std::tm local = {};
    char date[sizeof "Jan 01 00:00:00"] = "";
    if (clock_gettime(CLOCK_REALTIME, &now) != 0 || localtime_r(&now.tv_sec, &local) == nullptr ||
        std::strftime(date, sizeof date, "%b %d %H:%M:%S", &local) == 0)
        std::snprintf(text, size, "[no time]");
    else
        std::snprintf(text, size, "%s.%06ld", date, now.tv_nsec / 1000);
}

/// To the system's log, and to stderr. The program's own settings of syslog() are kept: openlog()
/// is the program's.
[[gnu::format(printf, 5, 6)]] void write_to_default(rpma_log_level level, const char *file_name,
                                                    const int line_no, const char *function_name,
                                                    const char *message_format, ...) {
    if (level < RPMA_LOG_LEVEL_FATAL || level > RPMA_LOG_LEVEL_DEBUG)
        return;
    const auto &[level_name, priority] = LEVELS.at(static_cast<std::size_t>(level));
    char message[1024] = "";
    std::va_list args;
    va_start(args, message_format);
    std::vsnprintf(message, sizeof message, message_format, args);
    va_end(args);
    char location[256] = "";
    if (file_name != nullptr) {
        const char *const slash = std::strrchr(file_name, '/');
        std::snprintf(location, sizeof location,
                      "%s: %3d: %s: ", slash != nullptr ? slash + 1 : file_name, line_no,
                      function_name);
    }
    // relaxed: as in RPMA_LOG.
    if (level <= stderr_threshold.load(std::memory_order_relaxed)) {
        char time[48];
        format_time(time, sizeof time);
        std::fprintf(stderr, "%s [%ld] %s%s%s", time, static_cast<long>(gettid()), level_name,
                     location, message);
    }
    syslog(LOG_LOCAL7 | priority, "%s%s%s", level_name, location, message);
}

std::atomic<rpma_log_function *> log_function = write_to_default;

} // namespace

std::atomic<rpma_log_level> log_threshold = RPMA_LOG_LEVEL_WARNING;

void write_log(rpma_log_level level, const log_location &location, const char *format,
               ...) noexcept {
    const int saved_errno = errno;
    char text[1000];
    std::va_list args;
    va_start(args, format);
    std::vsnprintf(text, sizeof text, format, args);
    va_end(args);
    // acquire: the function may use what the thread that set it has prepared.
    log_function.load(std::memory_order_acquire)(level, location.file, location.line,
                                                 location.function, "%s\n", text);
    errno = saved_errno;
}

} // namespace coherdma::rpma

using namespace coherdma::rpma;

int rpma_log_set_threshold(rpma_log_threshold threshold, rpma_log_level level) {
    auto *const value = to_threshold(threshold);
    if (value == nullptr || level < RPMA_LOG_DISABLED || level > RPMA_LOG_LEVEL_DEBUG)
        return RPMA_E_INVAL;
    value->store(level, std::memory_order_relaxed);
    return 0;
}

int rpma_log_get_threshold(rpma_log_threshold threshold, rpma_log_level *level) {
    const auto *const value = to_threshold(threshold);
    if (value == nullptr || level == nullptr)
        return RPMA_E_INVAL;
    *level = value->load(std::memory_order_relaxed);
    return 0;
}

int rpma_log_set_function(rpma_log_function *function) {
    // release: see write_log().
    log_function.store(function != nullptr ? function : write_to_default,
                       std::memory_order_release);
    return 0;
}

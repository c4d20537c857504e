// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Messages for the program's log function, or the default one.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <librpma.h>

namespace coherdma::rpma {

extern std::atomic<rpma_log_level> log_threshold;

/// Where a message comes from: an argument of the log function.
struct log_location {
    const char *file;
    int line;
    const char *function;
};

/// Passes one line to the log function; format has no line feed. errno is kept.
[[gnu::cold, gnu::format(printf, 3, 4)]] void
write_log(rpma_log_level level, const log_location &location, const char *format, ...) noexcept;

} // namespace coherdma::rpma

// Macros, for __func__ and so that arguments are evaluated only if the level is logged.
// relaxed: a level that another thread sets takes effect some time later.
#define RPMA_LOG(level, ...)                                                                       \
    (coherdma::rpma::log_threshold.load(std::memory_order_relaxed) < (level)                       \
         ? void()                                                                                  \
         : coherdma::rpma::write_log((level), {__FILE__, __LINE__, __func__}, __VA_ARGS__))

/// The same for a call that failed with an errno value, which it sets and appends as text. Some
/// providers negate it.
#define RPMA_LOG_ERRNO(error, format, ...)                                                         \
    (errno = std::abs(error),                                                                      \
     RPMA_LOG(RPMA_LOG_LEVEL_ERROR, format ": %s" __VA_OPT__(, ) __VA_ARGS__,                      \
              std::strerror(errno)))

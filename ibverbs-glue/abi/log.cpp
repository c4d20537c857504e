// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "log.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace coherdma::abi {

/// Appends a line to VERBS_LOG_FILE if VERBS_LOG_LEVEL permits. Preserves errno.
void verbs_log(log_level level, const char *format, ...) noexcept {
    const char *max_level = secure_getenv("VERBS_LOG_LEVEL");
    const char *path = secure_getenv("VERBS_LOG_FILE");
    if (max_level == nullptr || path == nullptr)
        return;
    const int saved_errno = errno;
    const int fd = std::strtol(max_level, nullptr, 0) < static_cast<long>(level)
                       ? -1
                       : open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (fd >= 0) {
        constexpr char prefix[] = "coherdma: ";
        constexpr std::size_t prefix_length = sizeof(prefix) - 1, max_text_length = 500;
        char line[prefix_length + max_text_length + 1]; // the last byte: the newline
        std::memcpy(line, prefix, prefix_length);
        std::va_list args;
        va_start(args, format);
        const int text_length =
            std::vsnprintf(line + prefix_length, max_text_length + 1, format, args);
        va_end(args);
        const std::size_t length =
            prefix_length +
            std::min(static_cast<std::size_t>(std::max(text_length, 0)), max_text_length);
        line[length] = '\n';
        // One write(), so that lines of several threads are not mixed. A failure is ignored.
        [[maybe_unused]] const auto written = write(fd, line, length + 1);
        close(fd);
    }
    errno = saved_errno;
}

} // namespace coherdma::abi

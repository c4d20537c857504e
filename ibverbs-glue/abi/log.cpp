// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "log.hpp"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

namespace coherdma::abi {

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
        char line[512] = "coherdma: ";
        std::va_list args;
        va_start(args, format);
        int length = 10 + std::vsnprintf(line + 10, sizeof(line) - 11, format, args);
        va_end(args);
        if (length > static_cast<int>(sizeof(line)) - 2)
            length = static_cast<int>(sizeof(line)) - 2;
        line[length] = '\n';
        // One write(), so that lines of several threads are not mixed. A failure is ignored.
        [[maybe_unused]] const auto written = write(fd, line, static_cast<std::size_t>(length) + 1);
        close(fd);
    }
    errno = saved_errno;
}

} // namespace coherdma::abi

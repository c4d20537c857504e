// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "log.hpp"

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

namespace coherdma::abi {

void say(level of, const char *format, ...) noexcept {
    const char *wanted = secure_getenv("VERBS_LOG_LEVEL"), *path = secure_getenv("VERBS_LOG_FILE");
    if (wanted == nullptr || path == nullptr)
        return;
    const int saved = errno;
    const int file = std::strtol(wanted, nullptr, 0) < static_cast<long>(of)
                         ? -1
                         : open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file >= 0) {
        char line[512] = "coherdma: ";
        std::va_list list;
        va_start(list, format);
        int length = 10 + std::vsnprintf(line + 10, sizeof(line) - 11, format, list);
        va_end(list);
        if (length > static_cast<int>(sizeof(line)) - 2)
            length = static_cast<int>(sizeof(line)) - 2;
        line[length] = '\n';
        // Whole or not at all, and nobody is told if not.
        [[maybe_unused]] const auto written =
            write(file, line, static_cast<std::size_t>(length) + 1);
        close(file);
    }
    errno = saved;
}

} // namespace coherdma::abi

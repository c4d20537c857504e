// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace tools::doctor {

/// While it lives, what libraries print on stderr is kept instead.
class kept_stderr {
    int file = memfd_create("stderr", MFD_CLOEXEC);
    int before = file < 0 ? -1 : dup(STDERR_FILENO);

  public:
    kept_stderr() {
        if (before >= 0)
            dup2(file, STDERR_FILENO);
    }
    ~kept_stderr() {
        if (before >= 0) {
            dup2(before, STDERR_FILENO);
            close(before);
        }
        if (file >= 0)
            close(file);
    }
    kept_stderr(const kept_stderr &) = delete;
    kept_stderr &operator=(const kept_stderr &) = delete;

    /// The first line of it.
    std::string words() const {
        char text[512];
        const ssize_t length = pread(file, text, sizeof text, 0);
        const std::string all(text, length > 0 ? static_cast<std::size_t>(length) : 0);
        return all.substr(0, all.find('\n'));
    }
};

} // namespace tools::doctor

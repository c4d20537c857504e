// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace tools::doctor {

/// Redirects stderr to a memory file while it exists; if that fails, not at all.
class capture_stderr {
    int fd_ = memfd_create("stderr", MFD_CLOEXEC);
    int saved_fd_ = fd_ < 0 ? -1 : dup(STDERR_FILENO);

  public:
    capture_stderr() {
        if (saved_fd_ >= 0)
            dup2(fd_, STDERR_FILENO);
    }
    ~capture_stderr() {
        if (saved_fd_ >= 0) {
            dup2(saved_fd_, STDERR_FILENO);
            close(saved_fd_);
        }
        if (fd_ >= 0)
            close(fd_);
    }
    capture_stderr(const capture_stderr &) = delete;
    capture_stderr &operator=(const capture_stderr &) = delete;

    /// The first line that was printed.
    std::string first_line() const {
        char text[512];
        const ssize_t length = pread(fd_, text, sizeof text, 0);
        const std::string output(text, length > 0 ? static_cast<std::size_t>(length) : 0);
        return output.substr(0, output.find('\n'));
    }
};

} // namespace tools::doctor

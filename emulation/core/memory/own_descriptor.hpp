// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <sys/stat.h>
#include <unistd.h>

namespace coherdma::emulation {

/// A descriptor of the emulation. A program that closes all descriptors may get its number for a
/// file of its own later, which must not be changed.
class own_descriptor {
  public:
    /// fd: -1 if there is none.
    explicit own_descriptor(int fd) noexcept
        : fd_(fd) {
        if (fstat(fd, &status_) != 0)
            fd_ = -1;
    }
    [[nodiscard]] int fd() const noexcept { return fd_; }
    /// Whether the number is that of the file, still.
    [[nodiscard]] bool is_open() const noexcept {
        struct stat now = {};
        return fstat(fd_, &now) == 0 && now.st_dev == status_.st_dev &&
               now.st_ino == status_.st_ino;
    }
    /// Closes the file, unless the program has.
    void close() const noexcept {
        if (is_open())
            ::close(fd_);
    }

  private:
    int fd_;
    struct stat status_ = {};
};

} // namespace coherdma::emulation

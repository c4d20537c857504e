// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Where reports go: stderr, and a file of JSON lines.
#pragma once

#include <string>
#include <string_view>
#include <sys/types.h>

namespace coherdma::reports {

/// By one write() if possible: other processes may write to the same file. Returns 0 or an errno.
int write_text(int fd, std::string_view text) noexcept;

/// Not thread-safe.
class log_file {
  public:
    /// name: "%p" in it stands for the process's ID; "": there is none.
    explicit log_file(std::string name)
        : name_(std::move(name)) {}
    ~log_file();
    log_file(const log_file &) = delete;
    log_file &operator=(const log_file &) = delete;

    /// Opens it, once in each process: a child of fork() may have another name for it. Returns why
    /// it cannot be written: "cannot write findings to /log: Permission denied"; "": it can, or
    /// there is none.
    std::string open();
    /// Opens it if need be, and appends the line. Returns as open(), also if there is no space.
    std::string write(const std::string &line);

  private:
    std::string name_;
    int fd_ = -1;
    pid_t pid_ = 0; ///< the process that opened it
};

} // namespace coherdma::reports

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace coherdma::emulation {

/// Maps a part of a file, or anonymous memory (fd -1). Children of fork() do not inherit it.
class file_mapping {
  public:
    file_mapping(int fd, std::uint64_t offset, std::size_t length) noexcept;
    ~file_mapping();
    file_mapping(file_mapping &&other) noexcept
        : pages_(std::exchange(other.pages_, nullptr))
        , length_(other.length_)
        , addr_(std::exchange(other.addr_, nullptr)) {}
    file_mapping &operator=(file_mapping &&) = delete;

    /// nullptr: mmap failed.
    [[nodiscard]] unsigned char *addr() const noexcept { return addr_; }

  private:
    void *pages_ = nullptr;
    std::size_t length_ = 0;
    unsigned char *addr_ = nullptr;
};

} // namespace coherdma::emulation

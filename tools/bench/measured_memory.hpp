// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <cstddef>
#include <cstdint>

namespace tools::bench {

/// Mapped memory for the measured ranges, in huge pages if possible, so that page table walks are
/// not measured.
class measured_memory {
  public:
    explicit measured_memory(std::size_t bytes); ///< throws std::system_error
    ~measured_memory();
    measured_memory(const measured_memory &) = delete;
    measured_memory &operator=(const measured_memory &) = delete;

    [[nodiscard]] std::uintptr_t begin() const { return reinterpret_cast<std::uintptr_t>(bytes_); }
    [[nodiscard]] std::size_t size() const { return size_; }

    /// Writes a byte of each cache line of the first `bytes` bytes, which makes the line dirty.
    void make_lines_dirty(std::size_t bytes, std::size_t line_size) const;
    /// Reads a byte of each of these lines, which loads the line into the cache.
    void load_lines(std::size_t bytes, std::size_t line_size) const;

  private:
    volatile unsigned char *bytes_;
    std::size_t size_;
};

} // namespace tools::bench

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tools::bench {

/// Memory in huge pages if possible, so that page table walks are not measured.
class memory {
  public:
    explicit memory(std::size_t bytes); ///< throws std::system_error
    ~memory();
    memory(const memory &) = delete;
    memory &operator=(const memory &) = delete;

    [[nodiscard]] std::uintptr_t begin() const { return reinterpret_cast<std::uintptr_t>(bytes_); }
    [[nodiscard]] std::size_t size() const { return size_; }

    /// Writes one byte of each line, which makes the line dirty.
    void dirty(std::size_t bytes, std::size_t line) const;
    void load(std::size_t bytes, std::size_t line) const;

  private:
    volatile unsigned char *bytes_;
    std::size_t size_;
};

} // namespace tools::bench

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tools::bench {

/// Memory of our own, in huge pages if the kernel gives them, so that page tables are not measured.
class memory {
  public:
    explicit memory(std::size_t bytes); ///< throws std::system_error
    ~memory();
    memory(const memory &) = delete;
    memory &operator=(const memory &) = delete;

    [[nodiscard]] std::uintptr_t begin() const { return reinterpret_cast<std::uintptr_t>(bytes_); }
    [[nodiscard]] std::size_t size() const { return size_; }

    /// One byte in every line: the line is dirty then.
    void dirty(std::size_t bytes, std::size_t line) const;
    void load(std::size_t bytes, std::size_t line) const;

  private:
    volatile unsigned char *bytes_;
    std::size_t size_;
};

} // namespace tools::bench

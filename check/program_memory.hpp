// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Memory of the program that may be unmapped, unreadable or poisoned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace coherdma::check {

/// Its bytes as they are: the memory itself, or a copy.
class program_memory {
  public:
    /// No value: the range cannot be read. Throws std::bad_alloc.
    ///
    /// The mutex of the check is locked as long as the result is used, so that a thread that is
    /// about to unmap the range waits. If it unmaps by a call that the interposer does not see, or
    /// truncates the file that is mapped, between a look and a read: the process ends by a signal.
    static std::optional<program_memory> read(std::uintptr_t begin, std::uintptr_t end);

    [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

  private:
    program_memory() = default;

    std::span<const std::byte> bytes_;
    std::unique_ptr<std::byte[]> copy_;
};

} // namespace coherdma::check

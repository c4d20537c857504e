// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The hash of a line when both copies were last equal: 8 bytes, or 4 where a line has 32. A change
// goes unnoticed with a probability of 2^-64, or 2^-32.
#pragma once

#include "core/memory/page_store.hpp"

#include <cstdint>
#include <cstring>

namespace coherdma::emulation {

inline constexpr std::size_t MAX_LINE_SIZE = 256;

[[nodiscard]] constexpr std::size_t hash_bytes(std::size_t line_size) noexcept {
    return line_size == 32 ? 4 : 8;
}

__extension__ using uint128 = unsigned __int128;

/// A multiply-and-fold hash of a whole line: each step mixes all bits of the state into all others.
/// It need not withstand deliberate collisions.
[[nodiscard]] inline std::uint64_t hash_of(const void *line, std::size_t line_size) noexcept {
    const auto *bytes = static_cast<const unsigned char *>(line);
    std::uint64_t state = 0x9e3779b97f4a7c15U;
    for (std::size_t i = 0; i < line_size; i += 16) {
        std::uint64_t low, high;
        std::memcpy(&low, bytes + i, 8);
        std::memcpy(&high, bytes + i + 8, 8);
        const auto product =
            static_cast<uint128>(low ^ state) * (high ^ 0xd6e8feb86659fd93U ^ (i << 32));
        state = (static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64)) +
                (low << 17 | low >> 47) + (high << 41 | high >> 23) + state;
    }
    state ^= state >> 32;
    state *= 0xd6e8feb86659fd93U;
    state ^= state >> 29;
    return line_size == 32 ? state & 0xffffffffU : state;
}

/// Where an extent stores the hash of one of its lines: that of the bytes when both copies were
/// last equal.
class stored_hash {
  public:
    stored_hash(page_extent &extent, std::uintptr_t line_addr, std::size_t line_size) noexcept
        : bytes_(static_cast<unsigned char *>(extent.hashes) +
                 (line_addr - extent.pages.begin) / line_size * hash_bytes(line_size))
        , size_(hash_bytes(line_size)) {}

    [[nodiscard]] std::uint64_t get() const noexcept {
        std::uint64_t hash = 0;
        std::memcpy(&hash, bytes_, size_);
        return hash;
    }
    void set(std::uint64_t hash) noexcept { std::memcpy(bytes_, &hash, size_); }

  private:
    unsigned char *bytes_;
    std::size_t size_;
};

} // namespace coherdma::emulation

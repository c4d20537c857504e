// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What both copies of a line had when they last agreed, as a hash: of 8 bytes, of 4 where a line
// has 32. That a change is not seen has a chance of 2^-64, or 2^-32.
#pragma once

#include "store.hpp"

#include <cstdint>
#include <cstring>

namespace coherdma::emulation {

inline constexpr std::size_t LARGEST_LINE = 256;

[[nodiscard]] constexpr std::size_t hash_bytes(std::size_t line) noexcept {
    return line == 32 ? 4 : 8;
}

__extension__ using wide = unsigned __int128;

/// Of a whole line. Each step mixes all bits of what was before into all others, in the way of
/// multiply-and-fold hashes; nobody here tries to find two lines of one hash.
[[nodiscard]] inline std::uint64_t hash_of(const void *line, std::size_t size) noexcept {
    const auto *bytes = static_cast<const unsigned char *>(line);
    std::uint64_t state = 0x9e3779b97f4a7c15U;
    for (std::size_t at = 0; at < size; at += 16) {
        std::uint64_t one, other;
        std::memcpy(&one, bytes + at, 8);
        std::memcpy(&other, bytes + at + 8, 8);
        const auto product =
            static_cast<wide>(one ^ state) * (other ^ 0xd6e8feb86659fd93U ^ (at << 32));
        state = (static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64)) +
                (one << 17 | one >> 47) + (other << 41 | other >> 23) + state;
    }
    state ^= state >> 32;
    state *= 0xd6e8feb86659fd93U;
    state ^= state >> 29;
    return size == 32 ? state & 0xffffffffU : state;
}

/// The hash that is kept for the line at an address that the run has.
class agreement {
  public:
    agreement(run &of, std::uintptr_t line, std::size_t size) noexcept
        : at_(static_cast<unsigned char *>(of.agreed) +
              (line - of.pages.begin) / size * hash_bytes(size))
        , size_(hash_bytes(size)) {}

    [[nodiscard]] std::uint64_t get() const noexcept {
        std::uint64_t hash = 0;
        std::memcpy(&hash, at_, size_);
        return hash;
    }
    void set(std::uint64_t hash) noexcept { std::memcpy(at_, &hash, size_); }

  private:
    unsigned char *at_;
    std::size_t size_;
};

} // namespace coherdma::emulation

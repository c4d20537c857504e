// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A line while it is looked at: both copies as they were a moment ago.
#pragma once

#include "lines.hpp"
#include "program.hpp"

#include <array>
#include <cstdint>

namespace coherdma::emulation {

struct line {
    std::uintptr_t at = 0;
    std::size_t size = 0;
    run *of = nullptr;
    unsigned char *device = nullptr; ///< where the device's is
    alignas(16) std::array<unsigned char, LARGEST_LINE> program_had{};
    alignas(16) std::array<unsigned char, LARGEST_LINE> device_had{};
    std::uint64_t program_hash = 0, device_hash = 0, agreed = 0;

    [[nodiscard]] span where() const noexcept { return {at, at + size}; }
    [[nodiscard]] bool stale() const noexcept { return device_hash != agreed; }

    /// Whether a peer sees other bytes there than the program.
    [[nodiscard]] bool differs_in(span bytes) const noexcept {
        const span part = common(bytes, where());
        return !part.empty() && std::memcmp(&program_had[part.begin - at],
                                            &device_had[part.begin - at], part.size()) != 0;
    }

    /// What both had when they last agreed, as far as that can be known: whoever still agrees has
    /// it; if neither does, it is what of both has the hash, should they have changed other bytes.
    bool agreed_had(unsigned char *into) const noexcept;

    void agree(std::uint64_t hash) noexcept {
        agreement(*of, at, size).set(hash);
        agreed = hash;
    }
    /// The device gets it.
    void set_device(const unsigned char *bytes) noexcept { std::memcpy(device, bytes, size); }
    /// The program gets it, but for words that it has changed meanwhile.
    int set_program(const unsigned char *bytes) noexcept;
};

} // namespace coherdma::emulation

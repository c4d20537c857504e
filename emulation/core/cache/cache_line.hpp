// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A snapshot of both copies of a line.
#pragma once

#include "core/memory/program_memory.hpp"
#include "line_hash.hpp"

#include <array>
#include <cstdint>

namespace coherdma::emulation {

struct cache_line {
    std::uintptr_t addr = 0;
    std::size_t size = 0;
    page_extent *extent = nullptr;
    unsigned char *device = nullptr; ///< the device's copy itself
    alignas(16) std::array<unsigned char, MAX_LINE_SIZE> program_bytes{};
    alignas(16) std::array<unsigned char, MAX_LINE_SIZE> device_bytes{};
    std::uint64_t program_hash = 0, device_hash = 0;
    std::uint64_t last_equal_hash = 0; ///< of the bytes when both copies were last equal

    [[nodiscard]] addr_range range() const noexcept { return {addr, addr + size}; }
    /// The device wrote the line and the program has not fetched it.
    [[nodiscard]] bool is_stale() const noexcept { return device_hash != last_equal_hash; }

    /// Whether the copies differ in any of these bytes.
    [[nodiscard]] bool differs_in(addr_range bytes) const noexcept {
        const addr_range part = intersection(bytes, range());
        return !part.empty() && std::memcmp(&program_bytes[part.begin - addr],
                                            &device_bytes[part.begin - addr], part.size()) != 0;
    }

    /// Finds the bytes that both copies had when they were last equal: those of an unchanged copy,
    /// or else a mix of both copies, which exists if they changed different bytes. False: not
    /// found.
    bool recover_last_equal(unsigned char *bytes) const noexcept;

    void set_last_equal(std::uint64_t hash) noexcept {
        stored_hash(*extent, addr, size).set(hash);
        last_equal_hash = hash;
    }
    // These change memory, not the snapshot.
    void copy_to_device(const unsigned char *bytes) noexcept { std::memcpy(device, bytes, size); }
    /// Except for words that the program has changed since the snapshot. Returns 0 or EFAULT.
    int copy_to_program(const unsigned char *bytes) noexcept;
};

} // namespace coherdma::emulation

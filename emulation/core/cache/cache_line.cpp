// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "cache_line.hpp"

#include <bit>

namespace coherdma::emulation {
namespace {

constexpr unsigned MAX_PARTS = 16; // with different bytes in the two copies: 65536 mixes

/// Searches for a mix of the program's and the device's copy, by parts of part_size bytes, that has
/// last_equal_hash: if both changed different bytes, that is what they were before. bytes must
/// contain the program's copy; it receives the mix, or undefined bytes if the result is false.
bool find_mix(const cache_line &line, std::size_t part_size, unsigned char *bytes) noexcept {
    std::array<std::size_t, MAX_PARTS> differing{};
    unsigned count = 0;
    for (std::size_t offset = 0; offset < line.size; offset += part_size) {
        if (std::memcmp(&line.program_bytes[offset], &line.device_bytes[offset], part_size) == 0)
            continue;
        if (count == MAX_PARTS)
            return false;
        differing[count++] = offset;
    }
    for (std::uint32_t i = 1; i < 1U << count; ++i) { // in Gray code: one part changes at a time
        const unsigned changed = static_cast<unsigned>(std::countr_zero(i));
        const bool from_device = ((i ^ i >> 1) >> changed & 1) != 0;
        const std::size_t offset = differing[changed];
        std::memcpy(bytes + offset,
                    from_device ? &line.device_bytes[offset] : &line.program_bytes[offset],
                    part_size);
        if (hash_of(bytes, line.size) == line.last_equal_hash)
            return true;
    }
    return false;
}

} // namespace

/// Finds the bytes that both copies had when they were last equal: those of an unchanged copy, or a
/// mix of both copies. False: not found.
bool cache_line::recover_last_equal(unsigned char *bytes) const noexcept {
    std::memcpy(bytes, program_bytes.data(), size);
    if (program_hash == last_equal_hash)
        return true;
    if (device_hash == last_equal_hash) {
        std::memcpy(bytes, device_bytes.data(), size);
        return true;
    }
    for (const std::size_t part_size : {8U, 4U, 2U, 1U}) {
        if (find_mix(*this, part_size, bytes))
            return true;
        std::memcpy(bytes, program_bytes.data(), size);
    }
    return false;
}

/// Except for words that the program has changed since the snapshot. Returns 0 or EFAULT.
int cache_line::copy_to_program(const unsigned char *bytes) noexcept {
    alignas(16) std::array<program_memory::word, MAX_LINE_SIZE / 8> expected, desired;
    std::memcpy(expected.data(), program_bytes.data(), size);
    std::memcpy(desired.data(), bytes, size);
    std::size_t num_skipped;
    return program_memory::replace_words(addr, expected.data(), desired.data(),
                                         size / sizeof(program_memory::word), &num_skipped);
}

} // namespace coherdma::emulation

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datping/pattern.hpp"

#include <algorithm>
#include <cstring>

namespace tools::datping {
namespace {

using word = std::uint64_t;

/// Bytes 8 * index to 8 * index + 7 of the pattern, the first in the lowest bits.
word pattern(word index, std::uint64_t round) {
    // The mixing function of the generator splitmix64.
    word mixed = (index + 1) * 0x9e3779b97f4a7c15;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    mixed ^= mixed >> 31;
    // The odd factor gives each of 256 consecutive rounds another byte.
    return mixed ^ (round * 0x9d & 0xff) * 0x0101010101010101;
}

std::uint8_t get_byte(word value, std::size_t i) {
    return static_cast<std::uint8_t>(value >> 8 * i);
}

/// In little-endian order on every CPU.
std::array<std::uint8_t, 8> to_bytes(word value) {
    std::array<std::uint8_t, 8> bytes;
    for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = get_byte(value, i);
    return bytes;
}

void record_mismatch(data_mismatch &result, std::uint64_t offset, std::uint8_t actual,
                     std::uint8_t expected) {
    if (result.count++ == 0) {
        result.first_offset = offset;
        result.actual = actual;
        result.expected = expected;
    }
}

} // namespace

void fill(std::span<std::byte> memory, std::uint64_t round) {
    for (std::size_t offset = 0; offset < memory.size(); offset += 8) {
        const auto bytes = to_bytes(pattern(offset / 8, round));
        std::memcpy(&memory[offset], bytes.data(), std::min(bytes.size(), memory.size() - offset));
    }
}

/// Compares the memory with the pattern of this round.
data_mismatch compare(std::span<const std::byte> memory, std::uint64_t round) {
    data_mismatch result;
    for (std::size_t offset = 0; offset < memory.size(); offset += 8) {
        const auto bytes = to_bytes(pattern(offset / 8, round));
        const std::size_t count = std::min(bytes.size(), memory.size() - offset);
        if (std::memcmp(&memory[offset], bytes.data(), count) == 0)
            continue;
        for (std::size_t i = 0; i < count; ++i)
            if (const auto actual = std::to_integer<std::uint8_t>(memory[offset + i]);
                actual != bytes[i])
                record_mismatch(result, offset + i, actual, bytes[i]);
    }
    return result;
}

} // namespace tools::datping

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "datping/pattern.hpp"

#include <algorithm>
#include <cstring>

namespace tools::datping {
namespace {

using word = std::uint64_t;

/// Eight bytes of the pattern, the first in the lowest bits, from the 8 * index-th on.
word pattern(word index, std::uint64_t round) {
    word mixed = (index + 1) * 0x9e3779b97f4a7c15;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    mixed ^= mixed >> 31;
    // An odd factor takes each of 256 rounds in a row to a byte of its own.
    return mixed ^ (round * 0x9d & 0xff) * 0x0101010101010101;
}

std::uint8_t byte_of(word eight, std::size_t place) {
    return static_cast<std::uint8_t>(eight >> 8 * place);
}

/// The same on every machine.
std::array<std::uint8_t, 8> in_memory(word eight) {
    std::array<std::uint8_t, 8> bytes;
    for (std::size_t place = 0; place < bytes.size(); ++place)
        bytes[place] = byte_of(eight, place);
    return bytes;
}

void note(damage &found, std::uint64_t place, std::uint8_t got, std::uint8_t wanted) {
    if (found.count++ == 0) {
        found.first = place;
        found.got = got;
        found.wanted = wanted;
    }
}

} // namespace

void fill(std::span<std::byte> memory, std::uint64_t round) {
    for (std::size_t at = 0; at < memory.size(); at += 8) {
        const auto bytes = in_memory(pattern(at / 8, round));
        std::memcpy(&memory[at], bytes.data(), std::min(bytes.size(), memory.size() - at));
    }
}

damage compare(std::span<const std::byte> memory, std::uint64_t round) {
    damage found;
    for (std::size_t at = 0; at < memory.size(); at += 8) {
        const auto bytes = in_memory(pattern(at / 8, round));
        const std::size_t count = std::min(bytes.size(), memory.size() - at);
        if (std::memcmp(&memory[at], bytes.data(), count) == 0)
            continue;
        for (std::size_t place = 0; place < count; ++place)
            if (const auto got = std::to_integer<std::uint8_t>(memory[at + place]);
                got != bytes[place])
                note(found, at + place, got, bytes[place]);
    }
    return found;
}

} // namespace tools::datping

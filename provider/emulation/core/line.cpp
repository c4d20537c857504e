// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "line.hpp"

#include <bit>

namespace coherdma::emulation {
namespace {

constexpr unsigned MOST_TRIED = 16; // parts that differ: 65536 ways to have mixed them

/// Makes into, which is the program's, the mix of both with that hash, if some parts of a size are
/// of one and the others of the other. False: then what is in it is neither.
bool mix(const line &one, std::size_t part, unsigned char *into) noexcept {
    std::array<std::size_t, MOST_TRIED> differ{};
    unsigned count = 0;
    for (std::size_t at = 0; at < one.size; at += part) {
        if (std::memcmp(&one.program_had[at], &one.device_had[at], part) == 0)
            continue;
        if (count == MOST_TRIED)
            return false;
        differ[count++] = at;
    }
    for (std::uint32_t each = 1; each < 1U << count; ++each) { // in the order of Gray, one a time
        const unsigned next = static_cast<unsigned>(std::countr_zero(each));
        const bool of_device = ((each ^ each >> 1) >> next & 1) != 0;
        const std::size_t at = differ[next];
        std::memcpy(into + at, of_device ? &one.device_had[at] : &one.program_had[at], part);
        if (hash_of(into, one.size) == one.agreed)
            return true;
    }
    return false;
}

} // namespace

bool line::agreed_had(unsigned char *into) const noexcept {
    std::memcpy(into, program_had.data(), size);
    if (program_hash == agreed)
        return true;
    if (device_hash == agreed) {
        std::memcpy(into, device_had.data(), size);
        return true;
    }
    for (const std::size_t part : {8U, 4U, 2U, 1U}) {
        if (mix(*this, part, into))
            return true;
        std::memcpy(into, program_had.data(), size);
    }
    return false;
}

int line::set_program(const unsigned char *bytes) noexcept {
    alignas(16) std::array<program::word, LARGEST_LINE / 8> seen, next;
    std::memcpy(seen.data(), program_had.data(), size);
    std::memcpy(next.data(), bytes, size);
    std::size_t lost;
    return program::replace(at, seen.data(), next.data(), size / sizeof(program::word), &lost);
}

} // namespace coherdma::emulation

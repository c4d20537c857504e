// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Descriptors of MRs, as they travel to a peer.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace conform {

using descriptor = std::array<unsigned char, 21>;

inline descriptor make_descriptor(std::uint64_t address, std::uint64_t size, std::uint32_t rkey,
                                  int usage) {
    descriptor desc{};
    std::size_t pos = 0;
    const auto put = [&](std::uint64_t value, unsigned num_bytes) {
        for (; num_bytes; --num_bytes, value >>= 8)
            desc[pos++] = static_cast<unsigned char>(value & 0xff);
    };
    put(address, 8);
    put(size, 8);
    put(rkey, 4);
    put(static_cast<std::uint64_t>(usage), 1);
    return desc;
}

} // namespace conform

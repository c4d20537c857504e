// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// One transfer of data_integrity's plan, and the image that each side's memory must have after it.
//
// The source begins with that image; the sink begins with the payload's complement, so that a
// byte that was never written is always noticed. Guards differ between source and sink, so that
// one byte too many is noticed too. All of it is drawn from the seed, the round and the place in
// the plan, so that neither an earlier transfer's data nor shifted data can pass.

#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

namespace verbs_test {

using bytes = std::span<std::byte>;

/// Around a cache line, a packet and a page. Those from 112 to 1020 leave 48 to 124 bytes of a
/// multiple of 128, for which a checksum by vector instructions has branches of its own.
inline constexpr std::array<std::size_t, 27> sizes{
    1,   2,    3,    7,    8,    63,   64,   65,   112,  176,  240,   255,     257,    496,
    508, 1012, 1020, 1023, 1024, 1025, 4095, 4096, 4097, 8191, 65537, 1048575, 1048576};
inline constexpr std::size_t guard =
    4096; ///< bytes before and behind the payload that must not change
inline constexpr std::size_t max_slack = 4096; ///< how far the payload moves in the memory
inline constexpr std::size_t data_size = guard + max_slack + sizes.back() + guard;

enum class role { client, server };
enum class end { source, sink };

struct transfer {
    std::uint64_t seed;
    std::uint32_t round, number;
    std::size_t size;
    ibv_wr_opcode operation;
    role leader;

    const char *name() const {
        return operation == IBV_WR_SEND         ? "Send"
               : operation == IBV_WR_RDMA_WRITE ? "Write"
                                                : "Read";
    }
    // Which end of the transfer a side holds.
    end end_held_by(role side) const {
        const bool leads = side == leader;
        return leads == (operation != IBV_WR_RDMA_READ) ? end::source : end::sink;
    }
};

// The finalizer of splitmix64: neighboring inputs give unrelated outputs.
constexpr std::uint64_t mix(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15U;
    x = (x ^ (x >> 30U)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27U)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31U);
}

// What is drawn for one transfer, each from its own sequence.
enum class random_value : std::uint64_t {
    payload,
    source_guard,
    sink_guard,
    source_offset,
    sink_offset
};

/// The same on both sides for each transfer and kind.
inline std::uint64_t draw_random(const transfer &t, random_value kind) {
    return mix(mix(mix(t.seed) + t.number) + static_cast<std::uint64_t>(kind));
}

/// Where the payload begins in the memory of the side that holds that end: for half of the
/// transfers at any byte, for the others on a cache line. Both sides compute it, for either end.
inline std::size_t payload_offset(const transfer &t, end held) {
    const auto random = draw_random(t, held == end::source ? random_value::source_offset
                                                           : random_value::sink_offset);
    const std::size_t slack = (random >> 8U) % max_slack;
    return guard + ((random & 1U) ? slack : slack & ~std::size_t{63});
}

/// Pseudo-random bytes that the key determines.
inline void fill_pattern(bytes buffer, std::uint64_t key) {
    for (std::size_t offset = 0; offset < buffer.size(); offset += sizeof key) {
        const std::uint64_t word = mix(key + offset);
        std::memcpy(&buffer[offset], &word, std::min(sizeof word, buffer.size() - offset));
    }
}

/// What the memory of the side that holds that end must contain after the transfer: a guard, the
/// payload and another guard. The guards of source and sink differ.
inline std::vector<std::byte> make_image(const transfer &t, end held) {
    std::vector<std::byte> memory(guard + t.size + guard);
    fill_pattern(memory, draw_random(t, held == end::source ? random_value::source_guard
                                                            : random_value::sink_guard));
    fill_pattern(bytes(memory).subspan(guard, t.size), draw_random(t, random_value::payload));
    return memory;
}

} // namespace verbs_test

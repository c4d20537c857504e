// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What both ways to post have in common: of lists, and by one call for each part of a request.
#pragma once

#include "objects.hpp"

#include <cstdint>
#include <cstring>

namespace coherdma::provider::rxe {

constexpr std::uint32_t bit(ibv_wr_opcode opcode) noexcept {
    return std::uint32_t{1} << opcode;
}

inline constexpr std::uint32_t sends = bit(IBV_WR_SEND) | bit(IBV_WR_SEND_WITH_IMM);
inline constexpr std::uint32_t writes = bit(IBV_WR_RDMA_WRITE) | bit(IBV_WR_RDMA_WRITE_WITH_IMM);
inline constexpr std::uint32_t atomics =
    bit(IBV_WR_ATOMIC_CMP_AND_SWP) | bit(IBV_WR_ATOMIC_FETCH_AND_ADD);
inline constexpr std::uint32_t without_data = bit(IBV_WR_LOCAL_INV) | bit(IBV_WR_BIND_MW);
inline constexpr std::uint32_t can_be_inline = sends | writes | bit(IBV_WR_SEND_WITH_INV);

inline constexpr unsigned known_flags =
    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;

/// More bytes than a message can have.
inline constexpr std::uint64_t too_long = std::uint64_t{1} << 32;

/// The bytes of all pieces.
inline std::uint64_t total(const ibv_sge *pieces, std::size_t count) noexcept {
    std::uint64_t sum = 0;
    for (std::size_t piece = 0; piece < count; ++piece)
        sum += pieces[piece].length;
    return sum;
}

inline unsigned char *behind_of(send_slot &slot) noexcept {
    return reinterpret_cast<unsigned char *>(&slot) + sizeof(slot);
}

/// Where the next bytes go.
inline unsigned char *copied(unsigned char *into, const void *from, std::size_t length) noexcept {
    if (length != 0)
        std::memcpy(into, from, length);
    return into + length;
}

inline to_window window_of(const ibv_mw &window, std::uint32_t new_key,
                           const ibv_mw_bind_info &info) noexcept {
    return {info.addr,   info.length, info.mr != nullptr ? info.mr->lkey : 0,
            window.rkey, new_key,     info.mw_access_flags};
}

} // namespace coherdma::provider::rxe

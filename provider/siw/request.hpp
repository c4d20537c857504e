// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What both ways to post have in common: of lists, and by one call for each part of a request.
#pragma once

#include "objects.hpp"

#include <cstdint>
#include <cstring>

namespace coherdma::provider::siw {

/// More bytes than a message can have.
inline constexpr std::uint64_t too_long = std::uint64_t{1} << 32;

/// Flags of a request wait in the upper half of its opcode until it is given to the kernel, which
/// takes any slot with flags for a whole one when it flushes.
inline constexpr std::uint8_t opcode_mask = 15;
constexpr std::uint8_t waiting(std::uint8_t opcode, unsigned flags) noexcept {
    return static_cast<std::uint8_t>(opcode | flags << 3);
}
constexpr std::uint16_t waiting_flags(std::uint8_t opcode) noexcept {
    return static_cast<std::uint16_t>((opcode & ~opcode_mask) >> 3);
}
constexpr unsigned all_flags =
    SIW_WQE_INLINE | SIW_WQE_SIGNALLED | SIW_WQE_SOLICITED | SIW_WQE_READ_FENCE;
static_assert(waiting_flags(waiting(SIW_OP_SEND_REMOTE_INV, all_flags)) == all_flags);

inline siw_sqe &sqe(request &slot) noexcept {
    return reinterpret_cast<siw_sqe &>(slot);
}

/// The kernel's flags of a request, but for VALID and INLINE, from those of verbs. Reads are
/// carried out one after the other anyhow, and a fence before one stops the queue. Anything else
/// behind a read would complete before it, if it were not made to wait.
inline unsigned flags_for(const pair &own, std::uint32_t number, std::uint8_t opcode,
                          unsigned flags) noexcept {
    static_assert(IBV_SEND_SIGNALED << 1 == SIW_WQE_SIGNALLED);
    static_assert(IBV_SEND_SOLICITED << 1 == SIW_WQE_SOLICITED);
    static_assert(IBV_SEND_FENCE << 4 == SIW_WQE_READ_FENCE);
    unsigned kernels = own.flags_always | (flags & (IBV_SEND_SIGNALED | IBV_SEND_SOLICITED)) << 1;
    if (opcode != SIW_OP_READ) {
        kernels |= (flags & IBV_SEND_FENCE) << 4;
        if ((own.sends.ring.slot(number - 1).opcode & opcode_mask) == SIW_OP_READ)
            kernels |= SIW_WQE_READ_FENCE;
    }
    return kernels;
}

/// Where inline bytes go.
inline unsigned char *inline_room(siw_sqe &slot) noexcept {
    return reinterpret_cast<unsigned char *>(&slot.sge[1]);
}
/// They are there. The flag for it: without any there is none.
inline unsigned set_inline_length(siw_sqe &slot, std::uint32_t length) noexcept {
    slot.sge[0] = {0, length, 0};
    slot.num_sge = length != 0;
    return length != 0 ? SIW_WQE_INLINE : 0;
}
/// Whether there are not too many, nor too long, and there is one if it is to be read into: the
/// kernel does not look at any other.
inline bool set_pieces(siw_sqe &slot, const pair &own, std::uint8_t opcode, const ibv_sge *pieces,
                       std::size_t count) noexcept {
    static_assert(sizeof(ibv_sge) == sizeof(siw_sge) && offsetof(siw_sge, length) == 8);
    if (count > own.most_pieces_sent || (opcode == SIW_OP_READ && count != 1))
        return false;
    std::uint64_t length = 0;
    siw_sge *into = slot.sge;
    for (const ibv_sge *const end = pieces + count; pieces != end; ++pieces, ++into) {
        *into = {pieces->addr, pieces->length, pieces->lkey};
        length += pieces->length;
    }
    slot.num_sge = static_cast<std::uint8_t>(count);
    return length < too_long;
}

/// Whether the peer has allowed any read. One that it has not stops the queue.
bool may_read(pair &own) noexcept;

/// All up to an end is given to the kernel now, and the turn is still ours. It is left, and the
/// kernel has a look. errno: then nothing of it is left; 0 also if it will be flushed.
int submit(pair &own, std::uint32_t end) noexcept;

} // namespace coherdma::provider::siw

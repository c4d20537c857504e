// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What both ways to post have in common: of lists, and by one call for each part of a request.
#pragma once

#include "objects.hpp"

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

/// Begins a request in a vacant slot, with no data yet.
inline void begin(const pair &own, std::uint32_t number, std::uint64_t id, std::uint8_t opcode,
                  unsigned flags) noexcept {
    siw_sqe &slot = sqe(own.sends.ring.slot(number));
    const std::uint8_t before = own.sends.ring.slot(number - 1).opcode & opcode_mask;
    const bool reads = opcode == SIW_OP_READ, writes = opcode == SIW_OP_WRITE;
    unsigned kernels = 0;
    if (own.all_signaled || (flags & IBV_SEND_SIGNALED) != 0)
        kernels |= SIW_WQE_SIGNALLED;
    if (!reads && !writes && (flags & IBV_SEND_SOLICITED) != 0)
        kernels |= SIW_WQE_SOLICITED;
    // Reads are carried out one after the other anyhow, and a fence before one stops the queue.
    // Anything else behind a read would complete before it, if it were not made to wait.
    if (!reads && ((flags & IBV_SEND_FENCE) != 0 || before == SIW_OP_READ))
        kernels |= SIW_WQE_READ_FENCE;
    slot.id = id;
    slot.num_sge = 0;
    slot.opcode = waiting(opcode, kernels);
    slot.rkey = 0;
    slot.raddr = 0;
}

/// Where inline bytes go.
inline unsigned char *inline_room(siw_sqe &slot) noexcept {
    return reinterpret_cast<unsigned char *>(&slot.sge[1]);
}
/// They are there.
inline void set_inline_length(siw_sqe &slot, std::uint32_t length) noexcept {
    if (length == 0)
        return;
    slot.opcode = static_cast<std::uint8_t>(slot.opcode | waiting(0, SIW_WQE_INLINE));
    slot.sge[0] = {0, length, 0};
    slot.num_sge = 1;
}
/// There are as many as the pair can, at most.
inline void set_pieces(siw_sqe &slot, const ibv_sge *pieces, std::size_t count) noexcept {
    static_assert(sizeof(ibv_sge) == sizeof(siw_sge) && offsetof(siw_sge, length) == 8);
    if (count != 0)
        std::memcpy(slot.sge, pieces, count * sizeof(*pieces));
    slot.num_sge = static_cast<std::uint8_t>(count);
}

/// Whether all these pieces may be one message of that kind.
inline bool possible(const pair &own, std::uint8_t opcode, const ibv_sge *pieces,
                     std::size_t count) noexcept {
    std::uint64_t length = 0;
    for (std::size_t piece = 0; piece < count && piece < SIW_MAX_SGE; ++piece)
        length += pieces[piece].length;
    // The kernel reads into the first piece only, whatever the others are.
    return count <= own.most_pieces_sent && length < too_long &&
           (opcode != SIW_OP_READ || count == 1);
}

/// Whether the peer has allowed any read. One that it has not stops the queue.
bool may_read(pair &own) noexcept;

/// Gives the slots up to an end to the kernel and has it look, in two steps: with the turn, and
/// then without it. errno; 0 also if they will be flushed.
struct submission {
    pair &own;
    std::uint32_t first = 0;
    bool unheard = false;

    int with_turn(std::uint32_t end) noexcept;
    void without_turn() noexcept;
};

} // namespace coherdma::provider::siw

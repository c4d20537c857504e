// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// WQE helpers for ibv_post_send and the ibv_wr_* API.
#pragma once

#include "objects.hpp"

#include <cstdint>
#include <cstring>

namespace coherdma::provider::siw {

/// One more than the maximum message length.
inline constexpr std::uint64_t LENGTH_LIMIT = std::uint64_t{1} << 32;

/// Until wr_complete, the flags of a WQE are in the upper half of its opcode: a kernel that flushes
/// treats any WQE with flags as posted.
inline constexpr std::uint8_t OPCODE_MASK = 15;
constexpr std::uint8_t pack_flags(std::uint8_t opcode, unsigned flags) noexcept {
    return static_cast<std::uint8_t>(opcode | flags << 3);
}
constexpr std::uint16_t unpack_flags(std::uint8_t opcode) noexcept {
    return static_cast<std::uint16_t>((opcode & ~OPCODE_MASK) >> 3);
}
constexpr unsigned ALL_WQE_FLAGS =
    SIW_WQE_INLINE | SIW_WQE_SIGNALLED | SIW_WQE_SOLICITED | SIW_WQE_READ_FENCE;
static_assert(unpack_flags(pack_flags(SIW_OP_SEND_REMOTE_INV, ALL_WQE_FLAGS)) == ALL_WQE_FLAGS);

inline siw_sqe &to_sqe(wqe_header &wqe) noexcept {
    return reinterpret_cast<siw_sqe &>(wqe);
}

/// Returns the WQE flags for send_flags, without VALID and INLINE.
/// - An RDMA Read gets no fence: it would stop the SQ. The kernel executes Reads in order.
/// - Any other WR gets a fence if it follows a Read: it would complete before the Read.
inline unsigned make_wqe_flags(const siw_qp &qp, std::uint32_t index, std::uint8_t opcode,
                               unsigned send_flags) noexcept {
    static_assert(IBV_SEND_SIGNALED << 1 == SIW_WQE_SIGNALLED);
    static_assert(IBV_SEND_SOLICITED << 1 == SIW_WQE_SOLICITED);
    static_assert(IBV_SEND_FENCE << 4 == SIW_WQE_READ_FENCE);
    unsigned flags = qp.default_wqe_flags | (send_flags & (IBV_SEND_SIGNALED | IBV_SEND_SOLICITED))
                                                << 1;
    if (opcode != SIW_OP_READ) {
        flags |= (send_flags & IBV_SEND_FENCE) << 4;
        if ((qp.sq.ring.wqe(index - 1).opcode & OPCODE_MASK) == SIW_OP_READ)
            flags |= SIW_WQE_READ_FENCE;
    }
    return flags;
}

/// The address of a WQE's inline data.
inline unsigned char *inline_data(siw_sqe &sqe) noexcept {
    return reinterpret_cast<unsigned char *>(&sqe.sge[1]);
}
/// Sets the length of the inline data. Returns SIW_WQE_INLINE, or 0 if there are none.
inline unsigned set_inline_length(siw_sqe &sqe, std::uint32_t length) noexcept {
    sqe.sge[0] = {0, length, 0};
    sqe.num_sge = length != 0;
    return length != 0 ? SIW_WQE_INLINE : 0;
}
/// Sets the SGEs. Returns false if they are too many or too long, or if a Read has more than one:
/// the kernel would ignore the others. A Read without SGE is one of no bytes.
inline bool set_sge_list(siw_sqe &sqe, const siw_qp &qp, std::uint8_t opcode,
                         const ibv_sge *sg_list, std::size_t num_sge) noexcept {
    static_assert(sizeof(ibv_sge) == sizeof(siw_sge) && offsetof(siw_sge, length) == 8);
    if (num_sge > qp.max_send_sge || (opcode == SIW_OP_READ && num_sge > 1))
        return false;
    std::uint64_t length = 0;
    siw_sge *sge = sqe.sge;
    if (num_sge == 0)
        *sge = {}; // The kernel takes address and length of a Read from it, whatever num_sge is.
    for (const ibv_sge *const end = sg_list + num_sge; sg_list != end; ++sg_list, ++sge) {
        *sge = {sg_list->addr, sg_list->length, sg_list->lkey};
        length += sg_list->length;
    }
    sqe.num_sge = static_cast<std::uint8_t>(num_sge);
    return length < LENGTH_LIMIT;
}

/// Whether the peer accepts RDMA Reads. If it does not, a Read stops the SQ.
bool is_read_allowed(siw_qp &qp) noexcept;

/// Submits the VALID WQEs from prod to end and releases sq_lock. Returns 0 if the kernel or this
/// provider completes them; otherwise withdraws them and returns an errno.
int submit_and_unlock(siw_qp &qp, std::uint32_t end) noexcept;

} // namespace coherdma::provider::siw

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// WQE helpers for ibv_post_send and the ibv_wr_* API.
#pragma once

#include "objects.hpp"

#include <cstdint>
#include <cstring>

namespace coherdma::provider::rxe {

constexpr std::uint32_t bit(ibv_wr_opcode opcode) noexcept {
    return std::uint32_t{1} << opcode;
}

inline constexpr std::uint32_t SEND_OPCODES = bit(IBV_WR_SEND) | bit(IBV_WR_SEND_WITH_IMM);
inline constexpr std::uint32_t WRITE_OPCODES =
    bit(IBV_WR_RDMA_WRITE) | bit(IBV_WR_RDMA_WRITE_WITH_IMM);
inline constexpr std::uint32_t ATOMIC_OPCODES =
    bit(IBV_WR_ATOMIC_CMP_AND_SWP) | bit(IBV_WR_ATOMIC_FETCH_AND_ADD);
inline constexpr std::uint32_t OPCODES_WITHOUT_SGE = bit(IBV_WR_LOCAL_INV) | bit(IBV_WR_BIND_MW);
inline constexpr std::uint32_t INLINE_OPCODES =
    SEND_OPCODES | WRITE_OPCODES | bit(IBV_WR_SEND_WITH_INV);

inline constexpr unsigned SEND_FLAGS =
    IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE;

/// One more than the maximum message length.
inline constexpr std::uint64_t LENGTH_LIMIT = std::uint64_t{1} << 32;

inline std::uint64_t total_length(const ibv_sge *sg_list, std::size_t num_sge) noexcept {
    std::uint64_t length = 0;
    for (std::size_t i = 0; i < num_sge; ++i)
        length += sg_list[i].length;
    return length;
}

/// The address of the SGEs or inline data, which follow the WQE.
inline unsigned char *wqe_data(rxe_send_wqe &wqe) noexcept {
    return reinterpret_cast<unsigned char *>(&wqe) + sizeof(wqe);
}

/// Copies length bytes and returns the end of the copy.
inline unsigned char *append_data(unsigned char *dest, const void *src,
                                  std::size_t length) noexcept {
    if (length != 0)
        std::memcpy(dest, src, length);
    return dest + length;
}

/// Of a WQE that the kernel has not begun. length: below LENGTH_LIMIT, or the WQE is not published.
inline rxe_dma_info make_dma_info(std::uint64_t length, std::uint32_t num_sge) noexcept {
    const auto length32 = static_cast<std::uint32_t>(length);
    return {.length = length32,
            .resid = length32,
            .cur_sge = 0,
            .num_sge = num_sge,
            .sge_offset = 0,
            .reserved = 0};
}

inline rxe_mw_wr make_mw_wr(const ibv_mw &mw, std::uint32_t rkey,
                            const ibv_mw_bind_info &info) noexcept {
    return {.addr = info.addr,
            .length = info.length,
            .mr_lkey = info.mr != nullptr ? info.mr->lkey : 0,
            .mw_rkey = mw.rkey,
            .rkey = rkey,
            .access = info.mw_access_flags};
}

} // namespace coherdma::provider::rxe

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Commands to the kernel and its responses: a part that libibverbs fills or reads, and right behind
// it, without a gap, what driver and kernel say to each other. libibverbs knows where its part ends
// and takes the rest of the size for the driver's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace coherdma::abi {

/// part: the driver's; void: it has none. The size to tell is size, sizeof may be more.
template <std::size_t core, class part = void>
struct message {
    alignas(8) unsigned char head[core];
    part driver;

    static constexpr std::size_t size = core + sizeof(part);
    static_assert(core % alignof(part) == 0, "there would be a gap");
};
template <std::size_t core>
struct message<core, void> {
    alignas(8) unsigned char head[core];
    static constexpr std::size_t size = core;
};

// Bytes of libibverbs' part.
namespace command {
inline constexpr std::size_t get_context = 16, query_port = 24, alloc_pd = 16, reg_mr = 48,
                             rereg_mr = 56, alloc_mw = 24, create_cq = 40, create_cq_ex = 56,
                             resize_cq = 24, modify_cq = 40, create_srq = 40, create_srq_ex = 56,
                             modify_srq = 24, query_srq = 24, create_qp = 64, create_qp_ex = 88,
                             query_qp = 24, modify_qp = 120;
}
namespace response {
inline constexpr std::size_t get_context = 8, query_device = 304, alloc_pd = 4, reg_mr = 12,
                             rereg_mr = 8, alloc_mw = 8, create_cq = 8, create_cq_ex = 16,
                             resize_cq = 8, create_srq = 16, create_qp = 32, create_qp_ex = 40,
                             create_ah = 4;
}

} // namespace coherdma::abi

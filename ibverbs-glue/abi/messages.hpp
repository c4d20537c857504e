// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Commands to the kernel and its responses: a core payload that libibverbs writes or reads,
// directly followed by the driver payload. libibverbs takes the size beyond its core as the driver
// payload's.
#pragma once

#include <cstddef>
#include <cstdint>

namespace coherdma::abi {

/// payload: the driver payload's type, or void. Pass size to libibverbs: sizeof may be larger.
template <std::size_t core_size, class payload = void>
struct message {
    alignas(8) unsigned char core_payload[core_size];
    payload drv_payload;

    static constexpr std::size_t size = core_size + sizeof(payload);
    static_assert(core_size % alignof(payload) == 0, "padding before drv_payload");
};
template <std::size_t core_size>
struct message<core_size, void> {
    alignas(8) unsigned char core_payload[core_size];
    static constexpr std::size_t size = core_size;
};

// Sizes of the core payloads.
namespace command {
inline constexpr std::size_t get_context = 16, query_port = 24, alloc_pd = 16, reg_mr = 48,
                             rereg_mr = 56, alloc_mw = 24, create_cq_ex = 56, resize_cq = 24,
                             modify_cq = 40, create_srq = 40, create_srq_ex = 56, modify_srq = 24,
                             query_srq = 24, create_qp = 64, create_qp_ex = 88, query_qp = 24,
                             modify_qp = 120;
}
namespace response {
inline constexpr std::size_t get_context = 8, query_device = 304, alloc_pd = 4, reg_mr = 12,
                             rereg_mr = 8, alloc_mw = 8, create_cq_ex = 16, resize_cq = 8,
                             create_srq = 16, create_qp = 32, create_qp_ex = 40, create_ah = 4;
}

} // namespace coherdma::abi

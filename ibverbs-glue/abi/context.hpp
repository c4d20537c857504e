// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Contexts and QPs, whose size and layout in libibverbs depend on the release.
#pragma once

#include "libibverbs.hpp"

#include <cstdint>
#include <type_traits>

namespace coherdma::abi {

/// Allocates a zeroed driver context of driver_context_size bytes, which begins with the
/// ibv_context, preceded by libibverbs' part of verbs_context. On failure, sets errno and closes
/// cmd_fd. Fails and logs if libibverbs initialized a context of another layout than that of its
/// ABI version.
ibv_context *init_and_alloc_context(ibv_device *device, int cmd_fd, std::size_t driver_context_size,
                                    std::uint32_t driver_id) noexcept;

/// The address that alloc_context and import_context return.
verbs_context *to_verbs_context(ibv_context *context) noexcept;

void set_ops(ibv_context *context, const verbs_context_ops &ops) noexcept;

/// Undoes init_and_alloc_context().
void uninit_and_free_context(ibv_context *context) noexcept;

/// driver_context: its first member is `ibv_context verbs`, so that an ibv_context * of this driver
/// can be cast to it.
template <class driver_context>
driver_context *init_and_alloc_context(ibv_device *device, int cmd_fd,
                                       std::uint32_t driver_id) noexcept {
    static_assert(std::is_standard_layout_v<driver_context> &&
                  offsetof(driver_context, verbs) == 0);
    static_assert(std::is_same_v<decltype(driver_context::verbs), ibv_context>);
    static_assert(alignof(driver_context) <= 8, "the ibv_context may be aligned to 8 bytes only");
    return reinterpret_cast<driver_context *>(
        init_and_alloc_context(device, cmd_fd, sizeof(driver_context), driver_id));
}

/// Members of ibv_qp_ex that some releases lack; nullptr: not supported by this QP.
struct optional_wr_ops {
    void (*wr_atomic_write)(ibv_qp_ex *, std::uint32_t rkey, std::uint64_t remote_addr,
                            const void *atomic_wr);
    void (*wr_flush)(ibv_qp_ex *, std::uint32_t rkey, std::uint64_t remote_addr, std::size_t length,
                     std::uint8_t type, std::uint8_t level);
};

/// Sets the members that the release has, and VERBS_QP_EX in comp_mask, which makes
/// ibv_qp_to_qp_ex() succeed. Call it after create_qp_ex2(), which clears comp_mask.
void set_qp_ex_ops(verbs_qp &qp, const optional_wr_ops &ops) noexcept;

} // namespace coherdma::abi

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A local memory region: a memory region of verbs. Its lmr_context is the lkey, so posting takes it
// as it is; the sync calls find the region by it.
#pragma once

#include "object.hpp"
#include "owned.hpp"
#include "shared.hpp"

#include <cstdint>

namespace coherdma::dapl {

struct pz;

/// As DAT_MEM_TYPE_VIRTUAL, and what the device writes is seen in the order it was sent. The name
/// is of uDAPL 1.2's header alone; both versions take it.
constexpr auto mem_type_so_virtual = static_cast<DAT_MEM_TYPE>(0x03);

struct lmr : object {
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_LMR;
    using object::object;

    /// Whether a segment lies in it. Any thread, at any time: memory of a region that ends
    /// meanwhile is the program's fault, but an answer is due.
    bool covers(std::uint32_t key, std::uint64_t at, std::uint64_t length) const noexcept {
        const std::uint64_t first = begin.load(std::memory_order_relaxed);
        const std::uint64_t all = size.load(std::memory_order_relaxed);
        return lkey.load(std::memory_order_acquire) == key && at >= first && length <= all &&
               at - first <= all - length;
    }

    std::atomic<std::uint32_t> lkey = 0;
    std::atomic<std::uint64_t> begin = 0; ///< in the addresses that segments use
    std::atomic<std::uint64_t> size = 0;
    char *memory = nullptr; ///< where begin is for the CPU
    pz *zone = nullptr;
    std::unique_ptr<shared_meaning> meaning; ///< of the cookie that it was registered by, if any
    owned<ibv_mr, ibv_dereg_mr> region;
    DAT_MEM_TYPE kind = DAT_MEM_TYPE_VIRTUAL;
    DAT_REGION_DESCRIPTION description = {};
    DAT_MEM_PRIV_FLAGS privileges = DAT_MEM_PRIV_NONE_FLAG;
    DAT_VA_TYPE va = DAT_VA_TYPE_VA;
    std::uint32_t rkey = 0; ///< 0 without a remote privilege
};

} // namespace coherdma::dapl

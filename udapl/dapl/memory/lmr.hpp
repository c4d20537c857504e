// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A local memory region (LMR): a verbs MR. Its lmr_context is the lkey, so that a DAT segment is a
// valid ibv_sge; dat_lmr_sync_rdma_* find the LMR by it.
#pragma once

#include "dapl/core/lock.hpp"
#include "dapl/core/object.hpp"
#include "dapl/core/unique_handle.hpp"
#include "shm_lmr.hpp"

#include <cstdint>

namespace coherdma::dapl {

struct dapl_pz;

/// DAT_MEM_TYPE_SO_VIRTUAL: DAT_MEM_TYPE_VIRTUAL with strong ordering of the device's writes. Only
/// uDAPL 1.2's header has the name; lmr_create accepts it for both versions.
constexpr auto mem_type_so_virtual = static_cast<DAT_MEM_TYPE>(0x03);

struct dapl_lmr : object {
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_LMR;
    static constexpr DAT_UINT32 bad_handle = DAT_INVALID_HANDLE_LMR;
    using object::object;

    /// True: the segment is inside the LMR.
    bool covers(std::uint64_t addr, std::uint64_t segment_length) const noexcept {
        return addr >= address && segment_length <= length &&
               addr - address <= length - segment_length;
    }

    std::uint64_t address = 0; ///< as in segments: 0 if zero-based
    std::uint64_t length = 0;
    char *memory = nullptr; ///< the CPU's address
    dapl_pz *pz = nullptr;
    std::unique_ptr<shm_cookie_lock> shm_lock; ///< of an LMR of shared memory
    mutex lock;                                ///< of mr, and of binding an MW to it
    unique_handle<ibv_mr, ibv_dereg_mr> mr;    ///< nullptr: deregistered, as the LMR is being freed
    std::uint32_t lkey = 0;
    DAT_MEM_TYPE mem_type = DAT_MEM_TYPE_VIRTUAL;
    DAT_REGION_DESCRIPTION region_desc = {};
    DAT_MEM_PRIV_FLAGS privileges = DAT_MEM_PRIV_NONE_FLAG;
    DAT_VA_TYPE va_type = DAT_VA_TYPE_VA;
    std::uint32_t rkey = 0; ///< 0 without a remote privilege
};

/// The LMR and all RMRs of the IA were removed.
void destroy_lmr(dapl_lmr *lmr) noexcept;

} // namespace coherdma::dapl

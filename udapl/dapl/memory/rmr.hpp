// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A remote memory region (RMR): a verbs MW, which is bound to a part of an LMR. If the device has
// no MWs, an RMR can be created and queried, but not bound.
#pragma once

#include "dapl/core/lock.hpp"
#include "dapl/core/object.hpp"
#include "dapl/core/unique_handle.hpp"

#include <atomic>
#include <cstdint>

namespace coherdma::dapl {

struct dapl_lmr;
struct dapl_pz;

/// ibv_dealloc_mw is static inline, so it cannot be a template argument.
inline void dealloc_mw(ibv_mw *mw) noexcept {
    ibv_dealloc_mw(mw);
}

struct dapl_rmr : object {
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_RMR;
    static constexpr DAT_UINT32 bad_handle = DAT_INVALID_HANDLE_RMR;
    using object::object;

    dapl_pz *pz = nullptr;
    unique_handle<ibv_mw, dealloc_mw> mw;
    bool ep_scope = false;   ///< DAT_RMR_SCOPE_EP: an MW of type 2
    mutex lock;              ///< of binding, and of the fields that follow
    dapl_lmr *lmr = nullptr; ///< a reference; nullptr: not bound
    DAT_LMR_TRIPLET range = {};
    DAT_MEM_PRIV_FLAGS privileges = DAT_MEM_PRIV_NONE_FLAG;
    DAT_VA_TYPE va_type = DAT_VA_TYPE_VA;
    std::uint32_t rkey = 0; ///< 0: not bound
    /// Of an MW of type 2: the rkey at which it is not bound, or will not be once the posted WRs
    /// are executed. Invalidating that rkey crashes rxe's kernel (R2 of
    /// tests/system/KNOWN_FAULTS.md).
    std::atomic<std::uint32_t> unbound_rkey = 0;
};

/// Ends the binding of an RMR. The caller holds its lock.
void clear_binding(dapl_rmr &rmr) noexcept;
/// A Send with Invalidate of the peer has unbound the RMR that has this rkey, if there is one.
void rmr_invalidated(const dapl_ia &ia, std::uint32_t rkey) noexcept;
/// A bind or unbind of the RMR was not executed. It may be freed.
void rmr_bind_failed(DAT_RMR_HANDLE rmr_handle) noexcept;
/// The RMR was removed.
void destroy_rmr(dapl_rmr *rmr) noexcept;

/// Converts a range of memory named by an rmr_context to the LMR's address and lmr_context. False:
/// the peer may not write to that range.
bool rmr_to_lmr_triplet(dapl_ia &ia, const DAT_RMR_TRIPLET &rmr_triplet,
                        DAT_LMR_TRIPLET &lmr_triplet) noexcept;

} // namespace coherdma::dapl

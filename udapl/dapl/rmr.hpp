// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A remote memory region: a memory window of verbs, over a part of an LMR while it is bound. Where
// a device has no windows it can be made and asked, but not bound.
#pragma once

#include "object.hpp"
#include "owned.hpp"

#include <cstdint>

namespace coherdma::dapl {

struct lmr;
struct pz;

/// Verbs have it inline only.
inline void end_window(ibv_mw *window) noexcept {
    ibv_dealloc_mw(window);
}

struct rmr : object {
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_RMR;
    using object::object;

    pz *zone = nullptr;
    owned<ibv_mw, end_window> window;
    bool of_endpoint = false; ///< its scope: type 2 of verbs
    // The rest changes under the IA's lock.
    lmr *region = nullptr;
    DAT_LMR_TRIPLET range = {};
    DAT_MEM_PRIV_FLAGS privileges = DAT_MEM_PRIV_NONE_FLAG;
    DAT_VA_TYPE va = DAT_VA_TYPE_VA;
    std::uint32_t rkey = 0; ///< 0: not bound
};

/// What a peer's word for memory of ours means to our own device: the key and the address. False:
/// it is nothing that a peer may write.
bool behind(ia &on, const DAT_RMR_TRIPLET &named, DAT_LMR_TRIPLET &found) noexcept;

} // namespace coherdma::dapl

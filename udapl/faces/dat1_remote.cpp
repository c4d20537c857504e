// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Atomic writes and flushes, to which our libdat finds the way by the table's extension.

#include "dat1_calls.hpp"
#include "extensions/remote.hpp"

#include <algorithm>
#include <cstdint>

namespace coherdma::dapl::dat1 {

namespace {

/// Of a longer range its end, which is what a flush is about.
DAT_RMR_TRIPLET end_of(const rmr_triplet &range) noexcept {
    const DAT_VLEN length = std::min<DAT_VLEN>(range.segment_length, UINT32_MAX);
    return {range.target_address + (range.segment_length - length),
            static_cast<DAT_SEG_LENGTH>(length), range.rmr_context};
}

/// Of more memory than 2.0 can say its beginning, which is all that is needed.
DAT_LMR_TRIPLET begin_of(const lmr_triplet &range) noexcept {
    return {range.virtual_address,
            static_cast<DAT_SEG_LENGTH>(std::min<DAT_VLEN>(range.segment_length, UINT32_MAX)),
            range.lmr_context};
}

DAT_RETURN atomic_write(DAT_EP_HANDLE ep_handle, const void *value, const lmr_triplet *old,
                        DAT_DTO_COOKIE cookie, const rmr_triplet *remote,
                        DAT_COMPLETION_FLAGS flags) noexcept {
    DAT_LMR_TRIPLET from = {};
    DAT_RMR_TRIPLET to = {};
    if (old != nullptr)
        from = begin_of(*old);
    if (remote != nullptr)
        to = {remote->target_address, 8, remote->rmr_context};
    return told_any(extensions::atomic_write(ep_handle, value, old != nullptr ? &from : nullptr,
                                             cookie, remote != nullptr ? &to : nullptr, flags));
}

DAT_RETURN flush(DAT_EP_HANDLE ep_handle, const lmr_triplet *scratch, DAT_DTO_COOKIE cookie,
                 const rmr_triplet *remote, DAT_COMPLETION_FLAGS flags) noexcept {
    DAT_LMR_TRIPLET into = {};
    DAT_RMR_TRIPLET range = {};
    if (scratch != nullptr)
        into = begin_of(*scratch);
    if (remote != nullptr)
        range = end_of(*remote);
    return told_any(extensions::flush(ep_handle, scratch != nullptr ? &into : nullptr, cookie,
                                      remote != nullptr ? &range : nullptr, flags));
}

DAT_RETURN ways(DAT_EP_HANDLE ep_handle, DAT_COHERDMA_WAYS *to) noexcept {
    return told_any(extensions::ways(ep_handle, to));
}

} // namespace

const remote_calls extension = {0x616d6472656f6863, atomic_write, flush, ways};

} // namespace coherdma::dapl::dat1

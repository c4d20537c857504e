// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Atomic writes and flushes. The libdat of this package finds them by the table's extension member.

#include "dat1_calls.hpp"
#include "extensions/remote.hpp"

#include <algorithm>
#include <cstdint>

namespace coherdma::dapl::dat1 {

namespace {

/// The last bytes of a range that is longer than 2.0 can represent: a flush reads the end.
DAT_RMR_TRIPLET truncate_front(const rmr_triplet &range) noexcept {
    const DAT_VLEN length = std::min<DAT_VLEN>(range.segment_length, UINT32_MAX);
    return {range.target_address + (range.segment_length - length),
            static_cast<DAT_SEG_LENGTH>(length), range.rmr_context};
}

/// The first bytes: a buffer need not be longer.
DAT_LMR_TRIPLET truncate(const lmr_triplet &buffer) noexcept {
    return {buffer.virtual_address,
            static_cast<DAT_SEG_LENGTH>(std::min<DAT_VLEN>(buffer.segment_length, UINT32_MAX)),
            buffer.lmr_context};
}

/// remote: 8 bytes are written, whatever its length.
DAT_RETURN atomic_write(DAT_EP_HANDLE ep_handle, const void *value, const lmr_triplet *compare,
                        DAT_DTO_COOKIE user_cookie, const rmr_triplet *remote,
                        DAT_COMPLETION_FLAGS flags) noexcept {
    DAT_LMR_TRIPLET dat2_compare = {};
    DAT_RMR_TRIPLET dat2_remote = {};
    if (compare != nullptr)
        dat2_compare = truncate(*compare);
    if (remote != nullptr)
        dat2_remote = {remote->target_address, 8, remote->rmr_context};
    return to_dat1_result(
        extensions::atomic_write(ep_handle, value, compare != nullptr ? &dat2_compare : nullptr,
                                 user_cookie, remote != nullptr ? &dat2_remote : nullptr, flags));
}

/// scratch: where the bytes that a flush reads are stored.
DAT_RETURN flush(DAT_EP_HANDLE ep_handle, const lmr_triplet *scratch, DAT_DTO_COOKIE user_cookie,
                 const rmr_triplet *remote, DAT_COMPLETION_FLAGS flags) noexcept {
    DAT_LMR_TRIPLET dat2_scratch = {};
    DAT_RMR_TRIPLET dat2_remote = {};
    if (scratch != nullptr)
        dat2_scratch = truncate(*scratch);
    if (remote != nullptr)
        dat2_remote = truncate_front(*remote);
    return to_dat1_result(extensions::flush(ep_handle, scratch != nullptr ? &dat2_scratch : nullptr,
                                            user_cookie, remote != nullptr ? &dat2_remote : nullptr,
                                            flags));
}

DAT_RETURN query_methods(DAT_EP_HANDLE ep_handle, DAT_COHERDMA_METHODS *methods) noexcept {
    return to_dat1_result(extensions::query_methods(ep_handle, methods));
}

} // namespace

constexpr DAT_UINT64 magic = 0x616d6472656f6863; // DAT_COHERDMA_CALLS_MAGIC
const remote_calls extension = {magic, atomic_write, flush, query_methods};

} // namespace coherdma::dapl::dat1

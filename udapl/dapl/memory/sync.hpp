// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dat_lmr_sync_rdma_* for the segments of both DAT versions. All segments are checked before the
// first is synced, so that an error means that nothing was done. libcoherdma gets a list in one
// call, so that one pair of fences serves it. A DAT 2.0 segment has the layout of ibv_sge, so the
// list itself is passed. Segments of DAT 1.2, and lists with segments of zero-based LMRs, are
// converted.
#pragma once

#include "dapl/core/result.hpp"
#include "dapl/ia/device.hpp"
#include "dapl/ia/ia.hpp"
#include "lmr.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>

namespace coherdma::dapl {

static_assert(sizeof(DAT_LMR_TRIPLET) == sizeof(ibv_sge) &&
              offsetof(DAT_LMR_TRIPLET, virtual_address) == offsetof(ibv_sge, addr) &&
              offsetof(DAT_LMR_TRIPLET, segment_length) == offsetof(ibv_sge, length) &&
              offsetof(DAT_LMR_TRIPLET, lmr_context) == offsetof(ibv_sge, lkey));

/// coherdma_sync_rdma_read or coherdma_sync_rdma_write.
using sync_function = int (*)(const coherdma_device *, const ibv_sge *, std::size_t);

/// The longest SGE that a segment is split into: a multiple of the cache line size, so that
/// splitting puts no line into two SGEs that was not at an end of the segment.
constexpr std::uint64_t max_sge_length = std::uint64_t{1} << 31;

/// What the check of a list finds out.
struct segment_list_info {
    bool valid = false; ///< each segment is inside the LMR of its context
    bool has_zero_based = false;
    std::size_t num_sge = 0; ///< after splitting
};

/// A segment without bytes needs a valid context, too; its address is ignored. Each segment is
/// copied before the index is locked: to read the program's memory may wait for a page, even for a
/// thread that waits for the index.
template <class triplet>
segment_list_info check_segments(const dapl_ia &ia, const triplet *segments,
                                 std::size_t num_segments) noexcept {
    segment_list_info info;
    for (const triplet *it = segments; it != segments + num_segments; ++it) {
        const auto context = it->lmr_context;
        const auto address = it->virtual_address;
        const auto length = it->segment_length;
        info.valid = ia.lkey_index.read(context, [&](const dapl_lmr *lmr) {
            info.has_zero_based |= lmr != nullptr && lmr->va_type == DAT_VA_TYPE_ZB;
            return lmr != nullptr && (length == 0 || lmr->covers(address, length));
        });
        if (!info.valid)
            break;
        info.num_sge += 1 + length / max_sge_length;
    }
    return info;
}

/// Converts segments that check_segments() has accepted: at most segment_list_info::num_sge SGEs.
/// Returns their number.
template <class triplet>
std::size_t convert_segments(const dapl_ia &ia, const triplet *segments, std::size_t num_segments,
                             ibv_sge *sges) noexcept {
    ibv_sge *sge = sges;
    for (const triplet *it = segments; it != segments + num_segments; ++it) {
        std::uint64_t address =
            it->virtual_address + ia.lkey_index.read(it->lmr_context, [](const dapl_lmr *lmr) {
                return lmr != nullptr && lmr->va_type == DAT_VA_TYPE_ZB
                           ? reinterpret_cast<std::uintptr_t>(lmr->memory)
                           : 0;
            });
        for (std::uint64_t rest = it->segment_length; rest != 0;) {
            const std::uint64_t length = std::min(rest, max_sge_length);
            *sge++ = {address, static_cast<std::uint32_t>(length), it->lmr_context};
            address += length;
            rest -= length;
        }
    }
    return static_cast<std::size_t>(sge - sges);
}

/// Converts segments that check_segments() has accepted, and syncs them. 0 or an errno.
template <class triplet>
int sync_converted(const dapl_ia &ia, const triplet *segments, std::size_t num_segments,
                   std::size_t max_sge, sync_function sync_fn) noexcept {
    std::array<ibv_sge, 16> few_sges = {};
    std::unique_ptr<ibv_sge[]> many_sges;
    ibv_sge *sges = few_sges.data();
    if (max_sge > few_sges.size()) {
        many_sges.reset(new (std::nothrow) ibv_sge[max_sge]);
        sges = many_sges.get();
        if (sges == nullptr)
            return ENOMEM;
    }
    const std::size_t num_sge = convert_segments(ia, segments, num_segments, sges);
    return sync_fn(ia.coherency.get(), sges, num_sge);
}

/// dat_lmr_sync_rdma_read or dat_lmr_sync_rdma_write, for the segments of a DAT version.
template <class triplet>
DAT_RETURN sync(DAT_IA_HANDLE ia_handle, const triplet *segments, DAT_VLEN num_segments,
                sync_function sync_fn) noexcept {
    const auto ia = handle_to<dapl_ia>(ia_handle);
    if (!ia)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    if (num_segments == 0)
        return DAT_SUCCESS;
    if (segments == nullptr)
        return invalid_parameter(2);
    const segment_list_info info = check_segments(*ia, segments, num_segments);
    if (!info.valid)
        return invalid_parameter(2);
    int error;
    if (std::is_same_v<triplet, DAT_LMR_TRIPLET> && !info.has_zero_based)
        error =
            sync_fn(ia->coherency.get(), reinterpret_cast<const ibv_sge *>(segments), num_segments);
    else
        error = sync_converted(*ia, segments, num_segments, info.num_sge, sync_fn);
    // Other errors come from the check that the memory is mapped (COHERDMA_CHECK).
    return error == 0                           ? DAT_RETURN{DAT_SUCCESS}
           : error == EFAULT || error == EINVAL ? invalid_parameter(2)
                                                : no_resources(DAT_RESOURCE_MEMORY);
}

} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dat_lmr_sync_rdma_* for the segments of both DAT versions. All segments are checked before the
// first is synced, so that an error means that nothing was done. A DAT 2.0 segment has the layout
// of ibv_sge, so libcoherdma gets the list itself. Segments of DAT 1.2, and lists with segments of
// zero-based LMRs, are converted in batches.
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
#include <type_traits>
#include <utility>

namespace coherdma::dapl {

static_assert(sizeof(DAT_LMR_TRIPLET) == sizeof(ibv_sge) &&
              offsetof(DAT_LMR_TRIPLET, virtual_address) == offsetof(ibv_sge, addr) &&
              offsetof(DAT_LMR_TRIPLET, segment_length) == offsetof(ibv_sge, length) &&
              offsetof(DAT_LMR_TRIPLET, lmr_context) == offsetof(ibv_sge, lkey));

/// coherdma_sync_rdma_read or coherdma_sync_rdma_write.
using sync_function = int (*)(const coherdma_device *, const ibv_sge *, std::size_t);

/// Collects SGEs and passes them to libcoherdma 64 at a time.
class sync_batch {
  public:
    sync_batch(const dapl_ia &segments_ia, sync_function function) noexcept
        : ia(segments_ia)
        , sync_fn(function) {}

    /// Splits a segment that is longer than an SGE can be. 0 or an errno.
    int add(std::uint64_t address, std::uint64_t length, std::uint32_t lkey) noexcept {
        // A multiple of the cache line size, so that splitting puts no line into two SGEs that was
        // not at an end of the segment.
        constexpr std::uint64_t max_sge_length = std::uint64_t{1} << 31;
        for (;;) {
            const std::uint64_t sge_length = std::min(length, max_sge_length);
            sges[num_sge++] = {address, static_cast<std::uint32_t>(sge_length), lkey};
            if (num_sge == sges.size())
                if (const int error = submit())
                    return error;
            if (sge_length == length)
                return 0;
            address += sge_length;
            length -= sge_length;
        }
    }
    /// Syncs the SGEs collected so far. 0 or an errno.
    int submit() noexcept {
        const std::size_t count = std::exchange(num_sge, 0);
        return count != 0 ? sync_fn(ia.coherency.get(), sges.data(), count) : 0;
    }

  private:
    const dapl_ia &ia;
    const sync_function sync_fn;
    std::size_t num_sge = 0;
    std::array<ibv_sge, 64> sges;
};

/// False: a segment is not inside an LMR of this IA. has_zero_based: an LMR is zero-based.
template <class triplet>
bool check_segments(const dapl_ia &ia, const triplet *segments, std::size_t num_segments,
                    bool &has_zero_based) noexcept {
    has_zero_based = false;
    for (const triplet *it = segments; it != segments + num_segments; ++it) {
        if (it->segment_length == 0)
            continue;
        const bool is_covered = ia.lkey_index.read(it->lmr_context, [&](const dapl_lmr *lmr) {
            has_zero_based |= lmr != nullptr && lmr->va_type == DAT_VA_TYPE_ZB;
            return lmr != nullptr && lmr->covers(it->virtual_address, it->segment_length);
        });
        if (!is_covered)
            return false;
    }
    return true;
}

/// Converts segments that check_segments has accepted, and syncs them. 0 or an errno.
template <class triplet>
int sync_converted(const dapl_ia &ia, const triplet *segments, std::size_t num_segments,
                   sync_function sync_fn) noexcept {
    sync_batch batch(ia, sync_fn);
    for (const triplet *it = segments; it != segments + num_segments; ++it) {
        const auto base = ia.lkey_index.read(it->lmr_context, [](const dapl_lmr *lmr) {
            return lmr != nullptr && lmr->va_type == DAT_VA_TYPE_ZB
                       ? reinterpret_cast<std::uintptr_t>(lmr->memory)
                       : 0;
        });
        if (const int error =
                batch.add(base + it->virtual_address, it->segment_length, it->lmr_context))
            return error;
    }
    return batch.submit();
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
    bool has_zero_based;
    if (segments == nullptr || !check_segments(*ia, segments, num_segments, has_zero_based))
        return invalid_parameter(2);
    int error;
    if (std::is_same_v<triplet, DAT_LMR_TRIPLET> && !has_zero_based)
        error =
            sync_fn(ia->coherency.get(), reinterpret_cast<const ibv_sge *>(segments), num_segments);
    else
        error = sync_converted(*ia, segments, num_segments, sync_fn);
    return error == 0            ? DAT_SUCCESS
           : error == EOPNOTSUPP ? dat_error(DAT_MODEL_NOT_SUPPORTED)
                                 : invalid_parameter(2);
}

} // namespace coherdma::dapl

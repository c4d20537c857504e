// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dat_lmr_sync_rdma_* for the segments of both DAT versions. All segments are checked before the
// first is synced, so that an error means that nothing was done. libcoherdma gets a list in one
// call, so that one pair of fences serves it.
#pragma once

#include "dapl/core/result.hpp"
#include "dapl/ia/device.hpp"
#include "dapl/ia/ia.hpp"
#include "lmr.hpp"

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace coherdma::dapl {

using sync_function = decltype(coherdma_sync_before_read);

/// DAT has one call for before and after a peer's Write. This does what both need.
inline constexpr sync_function *sync_around_write = coherdma_sync_after_write;

/// Checks the segments, and stores their memory in ranges unless that is nullptr. False if one is
/// not inside the LMR of its context. A segment
/// without bytes needs a valid context, too; its address is ignored. Each segment is copied before
/// the index is locked: to read the program's memory may wait for a page, even for a thread that
/// waits for the index.
template <class triplet>
bool convert_segments(const dapl_ia &ia, const triplet *segments, std::size_t num_segments,
                      coherdma_range *ranges) noexcept {
    for (std::size_t i = 0; i != num_segments; ++i) {
        const auto context = segments[i].lmr_context;
        const auto address = segments[i].virtual_address;
        const auto length = segments[i].segment_length;
        const bool is_valid = ia.lkey_index.read(context, [&](const dapl_lmr *lmr) {
            if (lmr == nullptr || (length != 0 && !lmr->covers(address, length)))
                return false;
            if (ranges == nullptr)
                return true;
            const std::uintptr_t base =
                lmr->va_type == DAT_VA_TYPE_ZB ? reinterpret_cast<std::uintptr_t>(lmr->memory) : 0;
            ranges[i] = {.addr = reinterpret_cast<const void *>(base + address),
                         .length = static_cast<std::size_t>(length)};
            return true;
        });
        if (!is_valid)
            return false;
    }
    return true;
}

/// dat_lmr_sync_rdma_read or dat_lmr_sync_rdma_write, for the segments of a DAT version.
template <class triplet>
DAT_RETURN sync(DAT_IA_HANDLE ia_handle, const triplet *segments, DAT_VLEN num_segments,
                sync_function *sync_fn) noexcept {
    const auto ia = handle_to<dapl_ia>(ia_handle);
    if (!ia)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    if (num_segments == 0)
        return DAT_SUCCESS;
    if (segments == nullptr)
        return invalid_parameter(2);
    std::array<coherdma_range, 16> few_ranges;
    std::unique_ptr<coherdma_range[]> many_ranges;
    coherdma_range *ranges = few_ranges.data();
    if (num_segments > few_ranges.size()) {
        // Of a number that is wrong the first segment that does not exist is found, before memory
        // is allocated for all.
        constexpr DAT_VLEN MAX_SEGMENTS = PTRDIFF_MAX / sizeof(coherdma_range);
        if (num_segments > MAX_SEGMENTS || !convert_segments(*ia, segments, num_segments, nullptr))
            return invalid_parameter(2);
        many_ranges.reset(new (std::nothrow) coherdma_range[num_segments]);
        ranges = many_ranges.get();
        if (ranges == nullptr)
            return no_resources(DAT_RESOURCE_MEMORY);
    }
    if (!convert_segments(*ia, segments, num_segments, ranges))
        return invalid_parameter(2);
    const int error = sync_fn(ia->coherency.get(), ranges, num_segments);
    // Other errors come from the check that the memory is mapped (COHERDMA_CHECK).
    return error == 0                           ? DAT_RETURN{DAT_SUCCESS}
           : error == EFAULT || error == EINVAL ? invalid_parameter(2)
                                                : no_resources(DAT_RESOURCE_MEMORY);
}

} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "local_sync.hpp"

#include "dapl/ia/ia.hpp"
#include "lmr.hpp"

#include <algorithm>
#include <array>
#include <coherdma/coherdma.h>

namespace coherdma::dapl {

namespace {

using local_sync_function = decltype(coherdma_sync_for_device);

/// The CPU's address of a segment; 0: it is not inside an LMR of this IA. The segment is a copy, so
/// that the program's memory is not read while the index is locked (convert_segments()).
std::uintptr_t memory_of(const dapl_ia &ia, DAT_LMR_TRIPLET segment) noexcept {
    return ia.lkey_index.read(segment.lmr_context, [&](const dapl_lmr *lmr) -> std::uintptr_t {
        if (lmr == nullptr || !lmr->covers(segment.virtual_address, segment.segment_length))
            return 0;
        return reinterpret_cast<std::uintptr_t>(lmr->memory) +
               (segment.virtual_address - lmr->address);
    });
}

/// One call, and so one fence, for each 64 segments. It cannot fail: the ranges are valid, and the
/// IA would not have been opened on a CPU that cannot sync.
void sync_segments(const dapl_ia &ia, const DAT_LMR_TRIPLET *segments, std::size_t num_segments,
                   std::uint64_t max_length, local_sync_function *function,
                   std::uint32_t direction) noexcept {
    std::array<coherdma_range, 64> ranges;
    std::size_t num_ranges = 0;
    const auto submit = [&] {
        [[maybe_unused]] const int error =
            function(ia.coherency.get(), ranges.data(), num_ranges, direction);
        num_ranges = 0;
    };
    for (std::size_t i = 0; i != num_segments && max_length != 0; ++i) {
        const DAT_LMR_TRIPLET segment = segments[i];
        const auto length =
            static_cast<std::size_t>(std::min<std::uint64_t>(segment.segment_length, max_length));
        max_length -= length;
        const std::uintptr_t addr = length != 0 ? memory_of(ia, segment) : 0;
        if (addr == 0)
            continue;
        ranges.at(num_ranges++) = {.addr = reinterpret_cast<const void *>(addr), .length = length};
        if (num_ranges == ranges.size())
            submit();
    }
    if (num_ranges != 0)
        submit();
}

} // namespace

void sync_for_device(const dapl_ia &ia, const DAT_LMR_TRIPLET *segments, std::size_t num_segments,
                     bool device_writes) noexcept {
    sync_segments(ia, segments, num_segments, ~std::uint64_t{0}, coherdma_sync_for_device,
                  device_writes ? COHERDMA_FROM_DEVICE : COHERDMA_TO_DEVICE);
}

void sync_for_cpu(const dapl_ia &ia, const DAT_LMR_TRIPLET *segments, std::size_t num_segments,
                  std::uint64_t max_length) noexcept {
    sync_segments(ia, segments, num_segments, max_length, coherdma_sync_for_cpu,
                  COHERDMA_FROM_DEVICE);
}

} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dat_lmr_sync_rdma_read and dat_lmr_sync_rdma_write. All segments are looked up before libcoherdma
// sees the first, so after an error nothing was done. It takes the list as it is: a segment of
// DAT 2.0 has the layout of a verbs segment. Only addresses in zero-based regions have to be
// translated.

#include "api.hpp"
#include "device.hpp"
#include "ia.hpp"
#include "lmr.hpp"

#include <algorithm>
#include <array>
#include <cerrno>

namespace coherdma::dapl {

static_assert(sizeof(DAT_LMR_TRIPLET) == sizeof(ibv_sge) &&
              offsetof(DAT_LMR_TRIPLET, virtual_address) == offsetof(ibv_sge, addr) &&
              offsetof(DAT_LMR_TRIPLET, segment_length) == offsetof(ibv_sge, length) &&
              offsetof(DAT_LMR_TRIPLET, lmr_context) == offsetof(ibv_sge, lkey));

namespace {

using sync_call = int (*)(const coherdma_device *, const ibv_sge *, std::size_t);

/// False: a segment is in no region of this IA. based: some are in zero-based ones.
bool all_in_regions(const ia &on, const DAT_LMR_TRIPLET *list, std::size_t count,
                    bool &based) noexcept {
    based = false;
    for (const DAT_LMR_TRIPLET *each = list; each != list + count; ++each) {
        if (each->segment_length == 0)
            continue;
        const lmr *const in = on.by_lkey.find(each->lmr_context);
        if (in == nullptr ||
            !in->covers(each->lmr_context, each->virtual_address, each->segment_length))
            return false;
        based |= in->va == DAT_VA_TYPE_ZB;
    }
    return true;
}

/// In parts, translated. The parts were checked together.
int sync_translated(const ia &on, const DAT_LMR_TRIPLET *list, std::size_t count,
                    sync_call call) noexcept {
    std::array<ibv_sge, 64> part;
    for (std::size_t done = 0; done != count;) {
        const std::size_t some = std::min(count - done, part.size());
        for (std::size_t at = 0; at != some; ++at) {
            const DAT_LMR_TRIPLET &from = list[done + at];
            const lmr *const in = on.by_lkey.find(from.lmr_context);
            part.at(at) = {from.virtual_address, from.segment_length, from.lmr_context};
            if (in != nullptr && in->va == DAT_VA_TYPE_ZB)
                part.at(at).addr += reinterpret_cast<std::uintptr_t>(in->memory);
        }
        if (const int error = call(on.coherency.get(), part.data(), some))
            return error;
        done += some;
    }
    return 0;
}

DAT_RETURN sync(DAT_IA_HANDLE ia_handle, const DAT_LMR_TRIPLET *list, DAT_VLEN count,
                sync_call call) noexcept {
    const ia *const on = called_with<ia>(ia_handle);
    if (on == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_IA);
    if (count == 0)
        return DAT_SUCCESS;
    bool based;
    if (list == nullptr || !all_in_regions(*on, list, count, based))
        return wrong_argument(2);
    const int error =
        based ? sync_translated(*on, list, count, call)
              : call(on->coherency.get(), reinterpret_cast<const ibv_sge *>(list), count);
    return error == 0            ? DAT_SUCCESS
           : error == EOPNOTSUPP ? failed(DAT_MODEL_NOT_SUPPORTED)
                                 : wrong_argument(2);
}

} // namespace

DAT_RETURN lmr_sync_rdma_read(DAT_IA_HANDLE ia_handle, const DAT_LMR_TRIPLET *segments,
                              DAT_VLEN count) noexcept {
    return sync(ia_handle, segments, count, coherdma_sync_rdma_read);
}

DAT_RETURN lmr_sync_rdma_write(DAT_IA_HANDLE ia_handle, const DAT_LMR_TRIPLET *segments,
                               DAT_VLEN count) noexcept {
    return sync(ia_handle, segments, count, coherdma_sync_rdma_write);
}

} // namespace coherdma::dapl

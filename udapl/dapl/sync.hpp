// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Syncing segments, of whatever version's type. All of them are looked up before libcoherdma sees
// the first, so after an error nothing was done. It takes a list of DAT 2.0 as it is: such a
// segment has the layout of a verbs segment. Translated in parts is what has not, or is in a
// zero-based region, or is longer than a verbs segment can say.
#pragma once

#include "device.hpp"
#include "ia.hpp"
#include "lmr.hpp"
#include "result.hpp"

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

using sync_call = int (*)(const coherdma_device *, const ibv_sge *, std::size_t);

/// Verbs segments on their way to libcoherdma, so many at a time.
class sync_parts {
  public:
    sync_parts(const ia &of, sync_call how) noexcept
        : on(of)
        , call(how) {}

    /// 0 or an errno.
    int add(std::uint64_t address, std::uint64_t length, std::uint32_t key) noexcept {
        // Of whole lines, so that none is in two pieces but where the first was.
        constexpr std::uint64_t most = std::uint64_t{1} << 31;
        for (;;) {
            const std::uint64_t piece = std::min(length, most);
            part[filled++] = {address, static_cast<std::uint32_t>(piece), key};
            if (filled == part.size())
                if (const int error = flush())
                    return error;
            if (piece == length)
                return 0;
            address += piece;
            length -= piece;
        }
    }
    int flush() noexcept {
        const std::size_t count = std::exchange(filled, 0);
        return count != 0 ? call(on.coherency.get(), part.data(), count) : 0;
    }

  private:
    const ia &on;
    const sync_call call;
    std::size_t filled = 0;
    std::array<ibv_sge, 64> part;
};

/// False: a segment is in no region of this IA. based: some are in zero-based ones.
template <class triplet>
bool all_in_regions(const ia &on, const triplet *list, std::size_t count, bool &based) noexcept {
    based = false;
    for (const triplet *each = list; each != list + count; ++each) {
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

/// The segments were checked together.
template <class triplet>
int sync_translated(const ia &on, const triplet *list, std::size_t count, sync_call call) noexcept {
    sync_parts parts(on, call);
    for (const triplet *each = list; each != list + count; ++each) {
        const lmr *const in = on.by_lkey.find(each->lmr_context);
        std::uint64_t address = each->virtual_address;
        if (in != nullptr && in->va == DAT_VA_TYPE_ZB)
            address += reinterpret_cast<std::uintptr_t>(in->memory);
        if (const int error = parts.add(address, each->segment_length, each->lmr_context))
            return error;
    }
    return parts.flush();
}

template <class triplet>
DAT_RETURN sync(DAT_IA_HANDLE ia_handle, const triplet *list, DAT_VLEN count,
                sync_call call) noexcept {
    const ia *const on = called_with<ia>(ia_handle);
    if (on == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_IA);
    if (count == 0)
        return DAT_SUCCESS;
    bool based;
    if (list == nullptr || !all_in_regions(*on, list, count, based))
        return wrong_argument(2);
    int error;
    if (std::is_same_v<triplet, DAT_LMR_TRIPLET> && !based)
        error = call(on->coherency.get(), reinterpret_cast<const ibv_sge *>(list), count);
    else
        error = sync_translated(*on, list, count, call);
    return error == 0            ? DAT_SUCCESS
           : error == EOPNOTSUPP ? failed(DAT_MODEL_NOT_SUPPORTED)
                                 : wrong_argument(2);
}

} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Registered memory, windows, and its sync.

#include "dapl/api.hpp"
#include "dapl/ia.hpp"
#include "dapl/lmr.hpp"
#include "dapl/rmr.hpp"
#include "dapl/sync.hpp"
#include "dat1_calls.hpp"

#include <cstdint>

namespace coherdma::dapl::dat1 {

// 2.0's seventh argument, va_type, is of the face's own making, and 2.0 says 7 of a handle that has
// no place to go: here it is the seventh. 1.2's manual page has no word of its own for no length.
DAT_RETURN lmr_create(DAT_IA_HANDLE ia_handle, DAT_MEM_TYPE kind, DAT_REGION_DESCRIPTION region,
                      DAT_VLEN length, DAT_PZ_HANDLE pz_handle, DAT_MEM_PRIV_FLAGS privileges,
                      DAT_LMR_HANDLE *lmr_handle, DAT_LMR_CONTEXT *lmr_context,
                      DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *registered_length,
                      DAT_VADDR *registered_address) noexcept {
    // Solaris' other way to ask for strong ordering.
    constexpr DAT_UINT32 ro_disable = 0x100; // DAT_MEM_PRIV_RO_DISABLE_FLAG
    if ((DAT_UINT32{privileges} & ro_disable) != 0 && kind == DAT_MEM_TYPE_VIRTUAL)
        kind = mem_type_so_virtual;
    privileges = static_cast<DAT_MEM_PRIV_FLAGS>(DAT_UINT32{privileges} & ~ro_disable);
    const DAT_RETURN result = dapl::lmr_create(ia_handle, kind, region, length, pz_handle,
                                               privileges, DAT_VA_TYPE_VA, lmr_handle, lmr_context,
                                               rmr_context, registered_length, registered_address);
    if (DAT_GET_TYPE(result) == DAT_LENGTH_ERROR)
        return told(wrong_argument(4));
    return told_any(with_argument(result, [](unsigned n) { return n > 7 ? n - 1 : n; }));
}

namespace {

void put(lmr_param &to, const DAT_LMR_PARAM &from) noexcept {
    to = {from.ia_handle,       from.mem_type,          from.region_desc, from.length,
          from.pz_handle,       from.mem_priv,          from.lmr_context, from.rmr_context,
          from.registered_size, from.registered_address};
}

void put(rmr_param &to, const DAT_RMR_PARAM &from) noexcept {
    const DAT_LMR_TRIPLET &range = from.lmr_triplet;
    to = {from.ia_handle,
          from.pz_handle,
          {range.lmr_context, 0, range.virtual_address, range.segment_length},
          from.mem_priv,
          from.rmr_context};
}

// 1.2's arguments have neither the region nor va_type before them.
constexpr unsigned place_in_bind(unsigned n) {
    return n < 3 ? n : n < 5 ? n - 1 : n - 2;
}

} // namespace

DAT_RETURN lmr_query(DAT_LMR_HANDLE lmr_handle, DAT_LMR_PARAM_MASK mask,
                     lmr_param *param) noexcept {
    return asked<DAT_LMR_PARAM>(param, put, [&](DAT_LMR_PARAM *all) {
        return dapl::lmr_query(lmr_handle, lmr_mask(mask), all);
    });
}

DAT_RETURN lmr_sync_rdma_read(DAT_IA_HANDLE ia_handle, const lmr_triplet *segments,
                              DAT_VLEN count) noexcept {
    return told_any(sync(ia_handle, segments, count, coherdma_sync_rdma_read));
}

DAT_RETURN lmr_sync_rdma_write(DAT_IA_HANDLE ia_handle, const lmr_triplet *segments,
                               DAT_VLEN count) noexcept {
    return told_any(sync(ia_handle, segments, count, coherdma_sync_rdma_write));
}

// The region is the one that the triplet's context names; where there is none, the triplet is
// wrong, and not a handle that the call does not have.
DAT_RETURN rmr_bind(DAT_RMR_HANDLE rmr_handle, const lmr_triplet *triplet,
                    DAT_MEM_PRIV_FLAGS privileges, DAT_EP_HANDLE ep_handle, DAT_RMR_COOKIE cookie,
                    DAT_COMPLETION_FLAGS flags, DAT_RMR_CONTEXT *context) noexcept {
    const rmr *const one = called_with<rmr>(rmr_handle);
    DAT_LMR_HANDLE region = DAT_HANDLE_NULL;
    DAT_LMR_TRIPLET range = {};
    if (one != nullptr && triplet != nullptr) {
        if (triplet->segment_length > UINT32_MAX)
            return failed(DAT_LENGTH_ERROR);
        region = one->home->by_lkey.find(triplet->lmr_context);
        range = {triplet->virtual_address, static_cast<DAT_SEG_LENGTH>(triplet->segment_length),
                 triplet->lmr_context};
    }
    const DAT_RETURN result =
        dapl::rmr_bind(rmr_handle, region, triplet != nullptr ? &range : nullptr, privileges,
                       DAT_VA_TYPE_VA, ep_handle, cookie, flags, context);
    if (result == wrong_handle(DAT_INVALID_HANDLE_LMR))
        return told(wrong_argument(2));
    return told_any(with_argument(result, place_in_bind));
}

DAT_RETURN rmr_query(DAT_RMR_HANDLE rmr_handle, DAT_RMR_PARAM_MASK mask,
                     rmr_param *param) noexcept {
    return asked<DAT_RMR_PARAM>(param, put, [&](DAT_RMR_PARAM *all) {
        return dapl::rmr_query(rmr_handle, rmr_mask(mask), all);
    });
}

} // namespace coherdma::dapl::dat1

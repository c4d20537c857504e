// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// LMRs, RMRs and lmr_sync_rdma_*.

#include "dapl/api.hpp"
#include "dapl/ia/ia.hpp"
#include "dapl/memory/lmr.hpp"
#include "dapl/memory/rmr.hpp"
#include "dapl/memory/sync.hpp"
#include "dat1_calls.hpp"

#include <cstdint>

namespace coherdma::dapl::dat1 {

// Argument 7 of 2.0 is va_type, which is always valid here. 2.0 reports 7 for lmr_handle too, as
// OFED does, and lmr_handle is 7 in 1.2. 1.2's manual page has no DAT_LENGTH_ERROR.
DAT_RETURN lmr_create(DAT_IA_HANDLE ia_handle, DAT_MEM_TYPE mem_type, DAT_REGION_DESCRIPTION region,
                      DAT_VLEN length, DAT_PZ_HANDLE pz_handle, DAT_MEM_PRIV_FLAGS privileges,
                      DAT_LMR_HANDLE *lmr_handle, DAT_LMR_CONTEXT *lmr_context,
                      DAT_RMR_CONTEXT *rmr_context, DAT_VLEN *registered_length,
                      DAT_VADDR *registered_address) noexcept {
    // Solaris' flag for strong ordering.
    constexpr DAT_UINT32 ro_disable = 0x100; // DAT_MEM_PRIV_RO_DISABLE_FLAG
    if ((DAT_UINT32{privileges} & ro_disable) != 0 && mem_type == DAT_MEM_TYPE_VIRTUAL)
        mem_type = mem_type_so_virtual;
    privileges = static_cast<DAT_MEM_PRIV_FLAGS>(DAT_UINT32{privileges} & ~ro_disable);
    const DAT_RETURN result = dapl::lmr_create(ia_handle, mem_type, region, length, pz_handle,
                                               privileges, DAT_VA_TYPE_VA, lmr_handle, lmr_context,
                                               rmr_context, registered_length, registered_address);
    if (DAT_GET_TYPE(result) == DAT_LENGTH_ERROR)
        return to_dat1_error(invalid_parameter(4));
    return to_dat1_result(renumber_argument(result, [](unsigned n) { return n > 7 ? n - 1 : n; }));
}

namespace {

void to_dat1(lmr_param &dst, const DAT_LMR_PARAM &src) noexcept {
    dst = {src.ia_handle,       src.mem_type,          src.region_desc, src.length,
           src.pz_handle,       src.mem_priv,          src.lmr_context, src.rmr_context,
           src.registered_size, src.registered_address};
}

void to_dat1(rmr_param &dst, const DAT_RMR_PARAM &src) noexcept {
    const DAT_LMR_TRIPLET &triplet = src.lmr_triplet;
    dst = {src.ia_handle,
           src.pz_handle,
           {triplet.lmr_context, 0, triplet.virtual_address, triplet.segment_length},
           src.mem_priv,
           src.rmr_context};
}

/// The number in 1.2 of argument n of 2.0's rmr_bind: 1.2 has neither lmr_handle (2) nor va_type
/// (5).
constexpr unsigned dat1_bind_argument(unsigned n) {
    return n < 3 ? n : n < 5 ? n - 1 : n - 2;
}

} // namespace

DAT_RETURN lmr_query(DAT_LMR_HANDLE lmr_handle, DAT_LMR_PARAM_MASK mask,
                     lmr_param *param) noexcept {
    return query_convert<DAT_LMR_PARAM>(param, to_dat1, [&](DAT_LMR_PARAM *dat2_param) {
        return dapl::lmr_query(lmr_handle, dat2_lmr_mask(mask), dat2_param);
    });
}

DAT_RETURN lmr_sync_rdma_read(DAT_IA_HANDLE ia_handle, const lmr_triplet *segments,
                              DAT_VLEN num_segments) noexcept {
    return to_dat1_result(sync(ia_handle, segments, num_segments, coherdma_sync_before_read));
}

DAT_RETURN lmr_sync_rdma_write(DAT_IA_HANDLE ia_handle, const lmr_triplet *segments,
                               DAT_VLEN num_segments) noexcept {
    return to_dat1_result(sync(ia_handle, segments, num_segments, sync_around_write));
}

// The LMR is looked up by the triplet's lmr_context. If there is none, the invalid argument is the
// triplet (2): 1.2's call has no LMR handle.
DAT_RETURN rmr_bind(DAT_RMR_HANDLE rmr_handle, const lmr_triplet *triplet,
                    DAT_MEM_PRIV_FLAGS privileges, DAT_EP_HANDLE ep_handle,
                    DAT_RMR_COOKIE user_cookie, DAT_COMPLETION_FLAGS flags,
                    DAT_RMR_CONTEXT *rmr_context) noexcept {
    const auto rmr = handle_to<dapl_rmr>(rmr_handle);
    DAT_LMR_HANDLE lmr_handle = DAT_HANDLE_NULL;
    DAT_LMR_TRIPLET dat2_triplet = {};
    if (rmr && triplet != nullptr) {
        if (triplet->segment_length > UINT32_MAX)
            return dat_error(DAT_LENGTH_ERROR);
        lmr_handle = rmr->ia->lkey_index.find(triplet->lmr_context);
        dat2_triplet = {triplet->virtual_address,
                        static_cast<DAT_SEG_LENGTH>(triplet->segment_length), triplet->lmr_context};
    }
    const DAT_RETURN result =
        dapl::rmr_bind(rmr_handle, lmr_handle, triplet != nullptr ? &dat2_triplet : nullptr,
                       privileges, DAT_VA_TYPE_VA, ep_handle, user_cookie, flags, rmr_context);
    if (result == invalid_handle(DAT_INVALID_HANDLE_LMR))
        return to_dat1_error(invalid_parameter(2));
    return to_dat1_result(renumber_argument(result, dat1_bind_argument));
}

DAT_RETURN rmr_query(DAT_RMR_HANDLE rmr_handle, DAT_RMR_PARAM_MASK mask,
                     rmr_param *param) noexcept {
    return query_convert<DAT_RMR_PARAM>(param, to_dat1, [&](DAT_RMR_PARAM *dat2_param) {
        return dapl::rmr_query(rmr_handle, dat2_rmr_mask(mask), dat2_param);
    });
}

} // namespace coherdma::dapl::dat1

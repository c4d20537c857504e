// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "rmr.hpp"

#include "dapl/api.hpp"
#include "dapl/ia/device.hpp"
#include "dapl/ia/ia.hpp"
#include "lmr.hpp"
#include "pz.hpp"

#include <cerrno>

namespace coherdma::dapl {

namespace {

/// dat_rmr_create and dat_rmr_create_for_ep. ep_scope: DAT_RMR_SCOPE_EP, an MW of type 2.
DAT_RETURN create_rmr(DAT_PZ_HANDLE pz_handle, bool ep_scope, DAT_RMR_HANDLE *rmr_handle) noexcept {
    const auto pz_ref = handle_to<dapl_pz>(pz_handle);
    if (!pz_ref)
        return invalid_handle(DAT_INVALID_HANDLE_PZ);
    if (rmr_handle == nullptr)
        return invalid_parameter(2);
    dapl_ia &ia = *pz_ref->ia;
    dapl_pz *const pz = ia.find_and_add_ref<dapl_pz>(pz_handle);
    if (pz == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_PZ);
    dapl_rmr *const rmr = create_object<dapl_rmr>(ia);
    DAT_RETURN result = rmr != nullptr ? DAT_SUCCESS : no_resources(DAT_RESOURCE_MEMORY);
    if (rmr != nullptr && ia.dev->has_mw) {
        rmr->mw.reset(ibv_alloc_mw(pz->pd.get(), ep_scope ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1));
        if (!rmr->mw) {
            result = from_errno(errno, DAT_RESOURCE_MEMORY_REGION);
            destroy_object(rmr);
        }
    }
    if (result != DAT_SUCCESS) {
        ia.drop_ref(pz);
        return result;
    }
    rmr->pz = pz;
    rmr->ep_scope = ep_scope;
    if (rmr->mw)
        rmr->unbound_rkey = rmr->mw->rkey;
    ia.insert(rmr);
    *rmr_handle = rmr;
    return DAT_SUCCESS;
}

} // namespace

DAT_RETURN rmr_create(DAT_PZ_HANDLE pz_handle, DAT_RMR_HANDLE *rmr_handle) noexcept {
    return create_rmr(pz_handle, false, rmr_handle);
}

DAT_RETURN rmr_create_for_ep(DAT_PZ_HANDLE pz_handle, DAT_RMR_HANDLE *rmr_handle) noexcept {
    return create_rmr(pz_handle, true, rmr_handle);
}

DAT_RETURN rmr_query(DAT_RMR_HANDLE rmr_handle, DAT_RMR_PARAM_MASK mask,
                     DAT_RMR_PARAM *param) noexcept {
    return query_object<dapl_rmr>(
        rmr_handle, mask, DAT_RMR_FIELD_ALL, param, [param](dapl_rmr &rmr) {
            const std::lock_guard guard(rmr.lock);
            param->pz_handle = rmr.pz;
            param->lmr_triplet = rmr.range;
            param->mem_priv = rmr.privileges;
            param->rmr_context = rmr.rkey;
            param->rmr_scope = rmr.ep_scope ? DAT_RMR_SCOPE_EP : DAT_RMR_SCOPE_PZ;
            param->va_type = rmr.va_type;
        });
}

DAT_RETURN rmr_free(DAT_RMR_HANDLE rmr_handle) noexcept {
    return free_object(handle_to<dapl_rmr>(rmr_handle), DAT_NO_SUBTYPE, destroy_rmr);
}

/// The RMR is not bound any more: drops the reference to its LMR, and the index's entry of its
/// rkey.
void clear_binding(dapl_rmr &rmr) noexcept {
    dapl_ia::drop_ref(rmr.lmr);
    if (rmr.rkey != 0)
        rmr.ia->rkey_index.remove(rmr.rkey, &rmr);
    rmr.lmr = nullptr;
    rmr.range = {};
    rmr.privileges = DAT_MEM_PRIV_NONE_FLAG;
    rmr.va_type = DAT_VA_TYPE_VA;
    rmr.rkey = 0;
}

/// A Send with Invalidate of the peer has unbound the RMR that has this rkey, if there is one.
void rmr_invalidated(const dapl_ia &ia, std::uint32_t rkey) noexcept {
    if (const auto rmr = lookup<dapl_rmr>(ia.rkey_index.find(rkey)))
        rmr->unbound_rkey = rkey;
}

/// A bind or unbind of the RMR was not executed: it is not known whether the MW is bound.
void rmr_bind_failed(DAT_RMR_HANDLE rmr_handle) noexcept {
    if (const auto rmr = lookup<dapl_rmr>(rmr_handle))
        rmr->unbound_rkey = 0;
}

void destroy_rmr(dapl_rmr *rmr) noexcept {
    dapl_pz *const pz = rmr->pz;
    rmr->mw.reset();
    clear_binding(*rmr);
    destroy_object(rmr);
    dapl_ia::drop_ref(pz);
}

namespace {

bool may_write(DAT_MEM_PRIV_FLAGS privileges) noexcept {
    return (static_cast<DAT_UINT32>(privileges) & DAT_MEM_PRIV_REMOTE_WRITE_FLAG) != 0;
}

} // namespace

/// Converts a range of memory named by an rmr_context, of an LMR or of an RMR, to the LMR's address
/// and lmr_context. False: the peer may not write to that range.
bool rmr_to_lmr_triplet(dapl_ia &ia, const DAT_RMR_TRIPLET &rmr_triplet,
                        DAT_LMR_TRIPLET &lmr_triplet) noexcept {
    object *const match = ia.rkey_index.find(rmr_triplet.rmr_context);
    if (const auto lmr = lookup<dapl_lmr>(match)) {
        lmr_triplet.lmr_context = lmr->lkey;
        return may_write(lmr->privileges) &&
               lmr->covers(rmr_triplet.virtual_address, rmr_triplet.segment_length);
    }
    const auto rmr = lookup<dapl_rmr>(match);
    if (!rmr)
        return false;
    const std::lock_guard guard(rmr->lock);
    if (rmr->lmr == nullptr || !may_write(rmr->privileges))
        return false;
    const std::uint64_t first = rmr->va_type == DAT_VA_TYPE_ZB ? 0 : rmr->range.virtual_address;
    if (rmr_triplet.virtual_address < first ||
        rmr_triplet.segment_length > rmr->range.segment_length ||
        rmr_triplet.virtual_address - first >
            rmr->range.segment_length - rmr_triplet.segment_length)
        return false;
    lmr_triplet.virtual_address =
        rmr->range.virtual_address + (rmr_triplet.virtual_address - first);
    lmr_triplet.lmr_context = rmr->lmr->lkey;
    return true;
}

} // namespace coherdma::dapl

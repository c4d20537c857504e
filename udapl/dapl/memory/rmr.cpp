// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "rmr.hpp"

#include "dapl/api.hpp"
#include "dapl/ep/post.hpp"
#include "dapl/ia/device.hpp"
#include "dapl/ia/ia.hpp"
#include "lmr.hpp"
#include "pz.hpp"

#include <cerrno>

namespace coherdma::dapl {

namespace {

DAT_RETURN create_rmr(DAT_PZ_HANDLE pz_handle, bool ep_scope, DAT_RMR_HANDLE *rmr_handle) noexcept {
    dapl_pz *pz = handle_to<dapl_pz>(pz_handle);
    if (pz == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_PZ);
    if (rmr_handle == nullptr)
        return invalid_parameter(2);
    dapl_ia &ia = *pz->ia;
    pz = ia.get<dapl_pz>(pz_handle);
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
        ia.put(pz);
        return result;
    }
    rmr->pz = pz;
    rmr->ep_scope = ep_scope;
    ia.insert(rmr);
    ia.count(DCNT_IA_RMR_CREATE);
    *rmr_handle = rmr;
    return DAT_SUCCESS;
}

/// The caller holds the IA's lock.
void clear_binding(dapl_rmr &rmr) noexcept {
    if (rmr.lmr != nullptr)
        --rmr.lmr->refs;
    if (rmr.rkey != 0)
        rmr.ia->rkey_index.remove(rmr.rkey, &rmr);
    rmr.lmr = nullptr;
    rmr.rkey = 0;
}

unsigned verbs_access(DAT_UINT32 privileges) noexcept {
    return ((privileges & DAT_MEM_PRIV_REMOTE_READ_FLAG) != 0 ? unsigned{IBV_ACCESS_REMOTE_READ}
                                                              : 0) |
           ((privileges & DAT_MEM_PRIV_REMOTE_WRITE_FLAG) != 0 ? unsigned{IBV_ACCESS_REMOTE_WRITE}
                                                               : 0);
}

struct bind_params {
    dapl_rmr &rmr;
    dapl_lmr *lmr; ///< nullptr: unbind
    DAT_LMR_TRIPLET range;
    DAT_MEM_PRIV_FLAGS privileges;
    DAT_VA_TYPE va_type;
};

ibv_mw_bind_info make_bind_info(const bind_params &params) noexcept {
    return {params.lmr->mr.get(), params.range.virtual_address, params.range.segment_length,
            verbs_access(params.privileges) |
                (params.va_type == DAT_VA_TYPE_ZB ? unsigned{IBV_ACCESS_ZERO_BASED} : 0)};
}

/// Binds an MW of type 1. ibv_bind_mw stores the new rkey in the MW.
DAT_RETURN bind_type1(dapl_ep &ep, const bind_params &params, DAT_RMR_COOKIE user_cookie,
                      DAT_COMPLETION_FLAGS flags) noexcept {
    ibv_mw_bind mw_bind = {};
    mw_bind.send_flags = verbs_flags(flags);
    if (params.lmr != nullptr)
        mw_bind.bind_info = make_bind_info(params);
    const std::lock_guard guard(ep.requests.lock);
    dto_cookie *const cookie = ep.requests.peek_free();
    if (cookie == nullptr)
        return no_resources(DAT_RESOURCE_MEMORY);
    cookie->event.user_cookie = user_cookie;
    cookie->event.operation = DAT_DTO_BIND_MW;
    cookie->object = &params.rmr;
    mw_bind.wr_id = reinterpret_cast<std::uintptr_t>(cookie);
    ep.requests.commit(*cookie);
    if (const int error = ibv_bind_mw(ep.qp, params.rmr.mw.get(), &mw_bind)) {
        ep.requests.rollback();
        return from_errno(error, DAT_RESOURCE_MEMORY_REGION);
    }
    return DAT_SUCCESS;
}

/// Binds an MW of type 2, for which the poster chooses the new rkey.
DAT_RETURN bind_type2(dapl_ep &ep, const bind_params &params, DAT_RMR_COOKIE user_cookie,
                      DAT_COMPLETION_FLAGS flags) noexcept {
    constexpr dto_op bind_mw = {
        .opcode = IBV_WR_BIND_MW, .operation = DAT_DTO_BIND_MW, .can_inline = false};
    constexpr dto_op local_inv = {
        .opcode = IBV_WR_LOCAL_INV, .operation = DAT_DTO_BIND_MW, .can_inline = false};
    ibv_mw *const mw = params.rmr.mw.get();
    const dto_args dto = {0, nullptr, 0, user_cookie.as_64, verbs_flags(flags), &params.rmr};
    if (params.lmr == nullptr)
        return post(ep, local_inv, dto, [&](ibv_send_wr &wr) { wr.invalidate_rkey = mw->rkey; });
    const std::uint32_t rkey = ibv_inc_rkey(mw->rkey);
    const DAT_RETURN result = post(ep, bind_mw, dto, [&](ibv_send_wr &wr) {
        wr.bind_mw.mw = mw;
        wr.bind_mw.rkey = rkey;
        wr.bind_mw.bind_info = make_bind_info(params);
    });
    if (result == DAT_SUCCESS)
        mw->rkey = rkey;
    return result;
}

} // namespace

DAT_RETURN rmr_create(DAT_PZ_HANDLE pz_handle, DAT_RMR_HANDLE *rmr_handle) noexcept {
    return create_rmr(pz_handle, false, rmr_handle);
}

DAT_RETURN rmr_create_for_ep(DAT_PZ_HANDLE pz_handle, DAT_RMR_HANDLE *rmr_handle) noexcept {
    return create_rmr(pz_handle, true, rmr_handle);
}

DAT_RETURN rmr_bind(DAT_RMR_HANDLE rmr_handle, DAT_LMR_HANDLE lmr_handle,
                    const DAT_LMR_TRIPLET *triplet, DAT_MEM_PRIV_FLAGS privileges,
                    DAT_VA_TYPE va_type, DAT_EP_HANDLE ep_handle, DAT_RMR_COOKIE user_cookie,
                    DAT_COMPLETION_FLAGS flags, DAT_RMR_CONTEXT *rmr_context) noexcept {
    dapl_rmr *const rmr = handle_to<dapl_rmr>(rmr_handle);
    if (rmr == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_RMR);
    if (triplet == nullptr)
        return invalid_parameter(3);
    dapl_ia &ia = *rmr->ia;
    dapl_lmr *const lmr = triplet->segment_length != 0 ? ia.get<dapl_lmr>(lmr_handle) : nullptr;
    if (lmr == nullptr && triplet->segment_length != 0)
        return invalid_handle(DAT_INVALID_HANDLE_LMR);
    bind_params params = {*rmr, lmr, *triplet, privileges, va_type};
    dapl_ep *const ep = ia.get<dapl_ep>(ep_handle);
    DAT_RETURN result = DAT_SUCCESS;
    if (lmr != nullptr &&
        !lmr->covers(lmr->lkey, triplet->virtual_address, triplet->segment_length))
        result = invalid_parameter(3);
    else if ((static_cast<DAT_UINT32>(privileges) & ~DAT_UINT32{DAT_MEM_PRIV_ALL_FLAG}) != 0)
        result = invalid_parameter(4);
    else if (va_type != DAT_VA_TYPE_VA && va_type != DAT_VA_TYPE_ZB)
        result = invalid_parameter(5);
    else if (ep == nullptr)
        result = invalid_handle(DAT_INVALID_HANDLE_EP);
    else if (!rmr->mw)
        result = dat_error(DAT_MODEL_NOT_SUPPORTED);
    else if (ep->pz != rmr->pz || (lmr != nullptr && lmr->pz != rmr->pz))
        result = dat_error(DAT_PRIVILEGES_VIOLATION);
    else if (!ep->can_post_requests())
        result = invalid_state(state_subtype(ep->current_state()));
    else if (rmr->ep_scope)
        result = bind_type2(*ep, params, user_cookie, flags);
    else
        result = bind_type1(*ep, params, user_cookie, flags);
    ia.put(ep);
    if (result != DAT_SUCCESS) {
        ia.put(lmr);
        return result;
    }
    const std::lock_guard guard(ia.lock);
    clear_binding(*rmr);
    rmr->range = *triplet;
    rmr->privileges = privileges;
    rmr->va_type = va_type;
    rmr->lmr = lmr; // with the reference of ia.get()
    if (lmr != nullptr) {
        rmr->rkey = rmr->mw->rkey;
        ia.rkey_index.add(rmr->rkey, rmr);
    }
    if (rmr_context != nullptr)
        *rmr_context = rmr->rkey;
    return DAT_SUCCESS;
}

DAT_RETURN rmr_query(DAT_RMR_HANDLE rmr_handle, DAT_RMR_PARAM_MASK mask,
                     DAT_RMR_PARAM *param) noexcept {
    return query_object<dapl_rmr>(
        rmr_handle, mask, DAT_RMR_FIELD_ALL, param, [param](dapl_rmr &rmr) {
            const std::lock_guard guard(rmr.ia->lock);
            param->pz_handle = rmr.pz;
            param->lmr_triplet = rmr.range;
            param->mem_priv = rmr.privileges;
            param->rmr_context = rmr.rkey;
            param->rmr_scope = rmr.ep_scope ? DAT_RMR_SCOPE_EP : DAT_RMR_SCOPE_PZ;
            param->va_type = rmr.va_type;
        });
}

DAT_RETURN rmr_free(DAT_RMR_HANDLE rmr_handle) noexcept {
    return free_object<dapl_rmr>(rmr_handle, DAT_NO_SUBTYPE, destroy_rmr);
}

void destroy_rmr(dapl_rmr *rmr) noexcept {
    rmr->mw.reset();
    {
        const std::lock_guard guard(rmr->ia->lock);
        clear_binding(*rmr);
        --rmr->pz->refs;
    }
    destroy_object(rmr);
}

bool rmr_to_lmr_triplet(dapl_ia &ia, const DAT_RMR_TRIPLET &rmr_triplet,
                        DAT_LMR_TRIPLET &lmr_triplet) noexcept {
    const std::lock_guard guard(ia.lock);
    object *const obj = ia.rkey_index.find(rmr_triplet.rmr_context);
    const dapl_lmr *lmr = lookup<dapl_lmr>(obj);
    if (lmr != nullptr) {
        lmr_triplet.lmr_context = lmr->lkey;
        return (static_cast<DAT_UINT32>(lmr->privileges) & DAT_MEM_PRIV_REMOTE_WRITE_FLAG) != 0 &&
               lmr->covers(lmr->lkey, rmr_triplet.virtual_address, rmr_triplet.segment_length);
    }
    const dapl_rmr *const rmr = lookup<dapl_rmr>(obj);
    if (rmr == nullptr || rmr->lmr == nullptr ||
        (static_cast<DAT_UINT32>(rmr->privileges) & DAT_MEM_PRIV_REMOTE_WRITE_FLAG) == 0)
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

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dat_rmr_bind: a request that is posted to an EP.

#include "dapl/api.hpp"
#include "dapl/ia/ia.hpp"
#include "dapl/memory/lmr.hpp"
#include "dapl/memory/rmr.hpp"
#include "post.hpp"

namespace coherdma::dapl {

namespace {

unsigned verbs_access(DAT_UINT32 privileges) noexcept {
    return ((privileges & DAT_MEM_PRIV_REMOTE_READ_FLAG) != 0 ? unsigned{IBV_ACCESS_REMOTE_READ}
                                                              : 0) |
           ((privileges & DAT_MEM_PRIV_REMOTE_WRITE_FLAG) != 0 ? unsigned{IBV_ACCESS_REMOTE_WRITE}
                                                               : 0);
}

/// The arguments of dat_rmr_bind.
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
    dto_cookie *const cookie = ep.requests.peek_any_free();
    if (cookie == nullptr)
        return no_resources(DAT_RESOURCE_MEMORY);
    cookie->event.user_cookie = user_cookie;
    cookie->event.operation = DAT_DTO_BIND_MW;
    cookie->object = &params.rmr;
    cookie->num_sinks = 0;
    mw_bind.wr_id = ep.requests.wr_id_of(*cookie);
    ep.requests.commit(*cookie, mw_bind.send_flags);
    if (const int error = ibv_bind_mw(ep.qp, params.rmr.mw.get(), &mw_bind)) {
        ep.requests.rollback();
        return from_errno(error, DAT_RESOURCE_MEMORY_REGION);
    }
    return DAT_SUCCESS;
}

/// Unbinds an MW of type 2 by invalidating its rkey. If it is not bound, posts an RDMA Write of no
/// bytes instead, which completes in the order of the requests: see dapl_rmr::unbound_rkey.
DAT_RETURN unbind_type2(dapl_ep &ep, dapl_rmr &rmr, const dto_args &dto) noexcept {
    constexpr dto_op local_inv = {
        .opcode = IBV_WR_LOCAL_INV, .operation = DAT_DTO_BIND_MW, .can_inline = false};
    constexpr dto_op empty_write = {
        .opcode = IBV_WR_RDMA_WRITE, .operation = DAT_DTO_BIND_MW, .can_inline = false};
    const std::uint32_t rkey = rmr.mw->rkey;
    if (rmr.unbound_rkey.exchange(rkey) == rkey)
        return post(ep, empty_write, dto, [](ibv_send_wr &wr) { wr.wr.rdma = {}; });
    const DAT_RETURN result =
        post(ep, local_inv, dto, [rkey](ibv_send_wr &wr) { wr.invalidate_rkey = rkey; });
    if (result != DAT_SUCCESS)
        rmr.unbound_rkey = 0;
    return result;
}

/// Binds an MW of type 2, for which the poster chooses the new rkey.
DAT_RETURN bind_type2(dapl_ep &ep, const bind_params &params, DAT_RMR_COOKIE user_cookie,
                      DAT_COMPLETION_FLAGS flags) noexcept {
    constexpr dto_op bind_mw = {
        .opcode = IBV_WR_BIND_MW, .operation = DAT_DTO_BIND_MW, .can_inline = false};
    const dto_args dto = {0, nullptr, 0, user_cookie.as_64, verbs_flags(flags), &params.rmr};
    if (params.lmr == nullptr)
        return unbind_type2(ep, params.rmr, dto);
    ibv_mw *const mw = params.rmr.mw.get();
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

/// Checks the arguments of dat_rmr_bind. ep: nullptr if its handle is invalid.
DAT_RETURN check_bind(const bind_params &params, dapl_ep *ep) noexcept {
    const dapl_rmr &rmr = params.rmr;
    if (params.lmr != nullptr &&
        !params.lmr->covers(params.range.virtual_address, params.range.segment_length))
        return invalid_parameter(3);
    if ((static_cast<DAT_UINT32>(params.privileges) & ~DAT_UINT32{DAT_MEM_PRIV_ALL_FLAG}) != 0)
        return invalid_parameter(4);
    if (params.va_type != DAT_VA_TYPE_VA && params.va_type != DAT_VA_TYPE_ZB)
        return invalid_parameter(5);
    if (ep == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    if (!rmr.mw || ep->is_ud)
        return dat_error(DAT_MODEL_NOT_SUPPORTED);
    if (ep->current_pz() != rmr.pz || (params.lmr != nullptr && params.lmr->pz != rmr.pz))
        return dat_error(DAT_PRIVILEGES_VIOLATION);
    if (!ep->can_post_requests())
        return invalid_state(state_subtype(ep->current_state()));
    return DAT_SUCCESS;
}

} // namespace

DAT_RETURN rmr_bind(DAT_RMR_HANDLE rmr_handle, DAT_LMR_HANDLE lmr_handle,
                    const DAT_LMR_TRIPLET *triplet, DAT_MEM_PRIV_FLAGS privileges,
                    DAT_VA_TYPE va_type, DAT_EP_HANDLE ep_handle, DAT_RMR_COOKIE user_cookie,
                    DAT_COMPLETION_FLAGS flags, DAT_RMR_CONTEXT *rmr_context) noexcept {
    const auto rmr = handle_to<dapl_rmr>(rmr_handle);
    if (!rmr)
        return invalid_handle(DAT_INVALID_HANDLE_RMR);
    dapl_ia &ia = *rmr->ia;
    if (triplet == nullptr)
        return ia.find<dapl_lmr>(lmr_handle) ? invalid_parameter(3)
                                             : invalid_handle(DAT_INVALID_HANDLE_LMR);
    const bool unbind = triplet->segment_length == 0;
    const auto lmr_ref = unbind ? call_ref<dapl_lmr>() : ia.find<dapl_lmr>(lmr_handle);
    // Before the RMR's lock. dat_lmr_free cannot deregister the MR meanwhile.
    std::unique_lock<mutex> lmr_guard;
    if (lmr_ref)
        lmr_guard = std::unique_lock(lmr_ref->lock);
    dapl_lmr *const lmr =
        lmr_ref && lmr_ref->mr ? ia.find_and_add_ref<dapl_lmr>(lmr_handle) : nullptr;
    if (lmr == nullptr && !unbind)
        return invalid_handle(DAT_INVALID_HANDLE_LMR);
    const bind_params params = {*rmr, lmr, *triplet, privileges, va_type};
    const auto ep = ia.find<dapl_ep>(ep_handle);
    DAT_RETURN result = check_bind(params, ep.get());
    const std::lock_guard guard(rmr->lock);
    if (result == DAT_SUCCESS)
        result = rmr->ep_scope ? bind_type2(*ep, params, user_cookie, flags)
                               : bind_type1(*ep, params, user_cookie, flags);
    if (result != DAT_SUCCESS) {
        ia.drop_ref(lmr);
        return result;
    }
    clear_binding(*rmr);
    if (lmr != nullptr) {
        rmr->range = *triplet;
        rmr->privileges = privileges;
        rmr->va_type = va_type;
        rmr->lmr = lmr; // with the reference of ia.get()
        rmr->rkey = rmr->mw->rkey;
        ia.rkey_index.add(rmr->rkey, rmr.get());
    }
    if (rmr_context != nullptr)
        *rmr_context = rmr->rkey;
    return DAT_SUCCESS;
}

} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "rmr.hpp"

#include "api.hpp"
#include "device.hpp"
#include "ia.hpp"
#include "lmr.hpp"
#include "post.hpp"
#include "pz.hpp"

#include <cerrno>

namespace coherdma::dapl {

namespace {

DAT_RETURN create(DAT_PZ_HANDLE pz_handle, bool of_endpoint, DAT_RMR_HANDLE *rmr_handle) noexcept {
    pz *zone = called_with<pz>(pz_handle);
    if (zone == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_PZ);
    if (rmr_handle == nullptr)
        return wrong_argument(2);
    ia &on = *zone->home;
    zone = on.borrow<pz>(pz_handle);
    if (zone == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_PZ);
    rmr *const made = prepare<rmr>(on);
    DAT_RETURN result = made != nullptr ? DAT_SUCCESS : exhausted(DAT_RESOURCE_MEMORY);
    if (made != nullptr && on.on->windows) {
        made->window.reset(
            ibv_alloc_mw(zone->domain.get(), of_endpoint ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1));
        if (!made->window) {
            result = failed_with(errno, DAT_RESOURCE_MEMORY_REGION);
            discard(made);
        }
    }
    if (result != DAT_SUCCESS) {
        on.give_back(zone);
        return result;
    }
    made->zone = zone;
    made->of_endpoint = of_endpoint;
    on.adopt(made);
    *rmr_handle = made;
    return DAT_SUCCESS;
}

/// Under the IA's lock.
void unbound(rmr &one) noexcept {
    if (one.region != nullptr)
        --one.region->users;
    if (one.rkey != 0)
        one.home->by_rkey.remove(one.rkey, &one);
    one.region = nullptr;
    one.rkey = 0;
}

unsigned access_of(DAT_UINT32 privileges) noexcept {
    return ((privileges & DAT_MEM_PRIV_REMOTE_READ_FLAG) != 0 ? unsigned{IBV_ACCESS_REMOTE_READ}
                                                              : 0) |
           ((privileges & DAT_MEM_PRIV_REMOTE_WRITE_FLAG) != 0 ? unsigned{IBV_ACCESS_REMOTE_WRITE}
                                                               : 0);
}

struct binding {
    rmr &window;
    lmr *region; ///< nullptr: it is unbound
    DAT_LMR_TRIPLET range;
    DAT_MEM_PRIV_FLAGS privileges;
    DAT_VA_TYPE va;
};

/// The request for a window of the PZ. Verbs keep the new key in the window when it is posted.
DAT_RETURN bind(ep &by, const binding &wanted, DAT_RMR_COOKIE cookie,
                DAT_COMPLETION_FLAGS flags) noexcept {
    ibv_mw_bind what = {};
    what.send_flags = flags_of(flags);
    if (wanted.region != nullptr) {
        what.bind_info.mr = wanted.region->region.get();
        what.bind_info.addr = wanted.range.virtual_address;
        what.bind_info.length = wanted.range.segment_length;
        what.bind_info.mw_access_flags = access_of(wanted.privileges);
        if (wanted.va == DAT_VA_TYPE_ZB)
            what.bind_info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
    }
    const holding held(by.requests.guard);
    record *const next = by.requests.next();
    if (next == nullptr)
        return exhausted(DAT_RESOURCE_MEMORY);
    next->told.user_cookie = cookie;
    next->told.operation = DAT_DTO_BIND_MW;
    next->subject = &wanted.window;
    what.wr_id = reinterpret_cast<std::uintptr_t>(next);
    by.requests.posted(*next);
    if (const int error = ibv_bind_mw(by.qp, wanted.window.window.get(), &what)) {
        by.requests.not_posted();
        return failed_with(error, DAT_RESOURCE_MEMORY_REGION);
    }
    return DAT_SUCCESS;
}

/// The same for a window of an endpoint, which gives the new key itself.
DAT_RETURN bind_to_endpoint(ep &by, const binding &wanted, DAT_RMR_COOKIE cookie,
                            DAT_COMPLETION_FLAGS flags) noexcept {
    constexpr posting binds = {IBV_WR_BIND_MW, DAT_DTO_BIND_MW, false};
    constexpr posting unbinds = {IBV_WR_LOCAL_INV, DAT_DTO_BIND_MW, false};
    ibv_mw *const window = wanted.window.window.get();
    const description what = {0, nullptr, 0, cookie.as_64, flags_of(flags), &wanted.window};
    if (wanted.region == nullptr)
        return post(by, unbinds, what,
                    [&](ibv_send_wr &request) { request.invalidate_rkey = window->rkey; });
    const std::uint32_t key = ibv_inc_rkey(window->rkey);
    const DAT_RETURN result = post(by, binds, what, [&](ibv_send_wr &request) {
        request.bind_mw.mw = window;
        request.bind_mw.rkey = key;
        request.bind_mw.bind_info.mr = wanted.region->region.get();
        request.bind_mw.bind_info.addr = wanted.range.virtual_address;
        request.bind_mw.bind_info.length = wanted.range.segment_length;
        request.bind_mw.bind_info.mw_access_flags = access_of(wanted.privileges);
        if (wanted.va == DAT_VA_TYPE_ZB)
            request.bind_mw.bind_info.mw_access_flags |= IBV_ACCESS_ZERO_BASED;
    });
    if (result == DAT_SUCCESS)
        window->rkey = key;
    return result;
}

} // namespace

DAT_RETURN rmr_create(DAT_PZ_HANDLE pz_handle, DAT_RMR_HANDLE *rmr_handle) noexcept {
    return create(pz_handle, false, rmr_handle);
}

DAT_RETURN rmr_create_for_ep(DAT_PZ_HANDLE pz_handle, DAT_RMR_HANDLE *rmr_handle) noexcept {
    return create(pz_handle, true, rmr_handle);
}

DAT_RETURN rmr_bind(DAT_RMR_HANDLE rmr_handle, DAT_LMR_HANDLE lmr_handle,
                    const DAT_LMR_TRIPLET *triplet, DAT_MEM_PRIV_FLAGS privileges, DAT_VA_TYPE va,
                    DAT_EP_HANDLE ep_handle, DAT_RMR_COOKIE cookie, DAT_COMPLETION_FLAGS flags,
                    DAT_RMR_CONTEXT *context) noexcept {
    rmr *const one = called_with<rmr>(rmr_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_RMR);
    if (triplet == nullptr)
        return wrong_argument(3);
    ia &on = *one->home;
    lmr *const region = triplet->segment_length != 0 ? on.borrow<lmr>(lmr_handle) : nullptr;
    if (region == nullptr && triplet->segment_length != 0)
        return wrong_handle(DAT_INVALID_HANDLE_LMR);
    binding wanted = {*one, region, *triplet, privileges, va};
    ep *const by = on.borrow<ep>(ep_handle);
    DAT_RETURN result = DAT_SUCCESS;
    if (region != nullptr &&
        !region->covers(region->lkey, triplet->virtual_address, triplet->segment_length))
        result = wrong_argument(3);
    else if ((static_cast<DAT_UINT32>(privileges) & ~DAT_UINT32{DAT_MEM_PRIV_ALL_FLAG}) != 0)
        result = wrong_argument(4);
    else if (va != DAT_VA_TYPE_VA && va != DAT_VA_TYPE_ZB)
        result = wrong_argument(5);
    else if (by == nullptr)
        result = wrong_handle(DAT_INVALID_HANDLE_EP);
    else if (!one->window)
        result = failed(DAT_MODEL_NOT_SUPPORTED);
    else if (by->zone != one->zone || (region != nullptr && region->zone != one->zone))
        result = failed(DAT_PRIVILEGES_VIOLATION);
    else if (!by->takes_requests())
        result = wrong_state(subtype_of(by->now()));
    else if (one->of_endpoint)
        result = bind_to_endpoint(*by, wanted, cookie, flags);
    else
        result = bind(*by, wanted, cookie, flags);
    on.give_back(by);
    if (result != DAT_SUCCESS) {
        on.give_back(region);
        return result;
    }
    const holding held(on.guard);
    unbound(*one);
    one->range = *triplet;
    one->privileges = privileges;
    one->va = va;
    one->region = region; // stays counted as used
    if (region != nullptr) {
        one->rkey = one->window->rkey;
        on.by_rkey.add(one->rkey, one);
    }
    if (context != nullptr)
        *context = one->rkey;
    return DAT_SUCCESS;
}

DAT_RETURN rmr_query(DAT_RMR_HANDLE rmr_handle, DAT_RMR_PARAM_MASK mask,
                     DAT_RMR_PARAM *param) noexcept {
    rmr *const one = called_with<rmr>(rmr_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_RMR);
    if ((mask & ~DAT_RMR_FIELD_ALL) != 0)
        return wrong_argument(2);
    if (param == nullptr)
        return wrong_argument(3);
    DAT_IA_HANDLE const known = one->home->handle();
    const holding held(one->home->guard);
    *param = {};
    param->ia_handle = known;
    param->pz_handle = one->zone;
    param->lmr_triplet = one->range;
    param->mem_priv = one->privileges;
    param->rmr_context = one->rkey;
    param->rmr_scope = one->of_endpoint ? DAT_RMR_SCOPE_EP : DAT_RMR_SCOPE_PZ;
    param->va_type = one->va;
    return DAT_SUCCESS;
}

DAT_RETURN rmr_free(DAT_RMR_HANDLE rmr_handle) noexcept {
    rmr *const one = called_with<rmr>(rmr_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_RMR);
    bool in_use;
    if (!one->home->disown(one, in_use))
        return wrong_handle(DAT_INVALID_HANDLE_RMR);
    end_rmr(one);
    return DAT_SUCCESS;
}

void end_rmr(rmr *one) noexcept {
    one->window.reset();
    {
        const holding held(one->home->guard);
        unbound(*one);
        --one->zone->users;
    }
    discard(one);
}

bool behind(ia &on, const DAT_RMR_TRIPLET &named, DAT_LMR_TRIPLET &found) noexcept {
    const holding held(on.guard);
    object *const what = on.by_rkey.find(named.rmr_context);
    const lmr *region = as<lmr>(what);
    if (region != nullptr) {
        found.lmr_context = region->lkey;
        return (static_cast<DAT_UINT32>(region->privileges) & DAT_MEM_PRIV_REMOTE_WRITE_FLAG) !=
                   0 &&
               region->covers(region->lkey, named.virtual_address, named.segment_length);
    }
    const rmr *const window = as<rmr>(what);
    if (window == nullptr || window->region == nullptr ||
        (static_cast<DAT_UINT32>(window->privileges) & DAT_MEM_PRIV_REMOTE_WRITE_FLAG) == 0)
        return false;
    const std::uint64_t begin = window->va == DAT_VA_TYPE_ZB ? 0 : window->range.virtual_address;
    if (named.virtual_address < begin || named.segment_length > window->range.segment_length ||
        named.virtual_address - begin > window->range.segment_length - named.segment_length)
        return false;
    found.virtual_address = window->range.virtual_address + (named.virtual_address - begin);
    found.lmr_context = window->region->lkey;
    return true;
}

} // namespace coherdma::dapl

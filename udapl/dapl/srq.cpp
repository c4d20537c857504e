// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "srq.hpp"

#include "api.hpp"
#include "async.hpp"
#include "device.hpp"
#include "ia.hpp"
#include "pz.hpp"

#include <algorithm>
#include <cerrno>

namespace coherdma::dapl {

bool srq::fit(std::uint32_t wanted) noexcept {
    // A device may make it larger, and not every one says so at once.
    ibv_srq_attr is = {};
    const bool known = ibv_query_srq(queue.get(), &is) == 0;
    const std::uint32_t most = known ? std::max(is.max_wr, wanted) : wanted;
    if (made < 2 * most) {
        const std::uint32_t more = 2 * most - made;
        std::unique_ptr<record[]> part(new (std::nothrow) record[more]());
        if (!part)
            return false;
        for (std::uint32_t at = 0; at != more; ++at) {
            part[at].told.operation = DAT_DTO_RECEIVE;
            part[at].received = 1;
            part[at].subject = this;
            *last = &part[at];
            last = &part[at].next;
        }
        records.push_back(std::move(part));
        made = 2 * most;
    }
    max_dtos = static_cast<DAT_COUNT>(most);
    return true;
}

bool srq::end(record &one) noexcept {
    const holding held(guard);
    if (one.after == 0)
        return false;
    one.after = 0;
    one.next = nullptr;
    *last = &one;
    last = &one.next;
    --outstanding;
    return true;
}

void srq::limit_reached() noexcept {
    DAT_COUNT limit;
    {
        const holding held(guard);
        limit = low_watermark;
        low_watermark = 0; // Once, until it is set again.
    }
    if (limit != 0)
        report(*home, DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR, this, DAT_SRQ_LOW_WATERMARK_EVENT);
}

DAT_RETURN srq_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle, DAT_SRQ_ATTR *attr,
                      DAT_SRQ_HANDLE *srq_handle) noexcept {
    ia *const on = called_with<ia>(ia_handle);
    if (on == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_IA);
    pz *const zone = on->borrow<pz>(pz_handle);
    if (zone == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_PZ);
    const ibv_device_attr &limits = on->on->limits;
    srq *made = nullptr;
    DAT_RETURN result = DAT_SUCCESS;
    if (attr == nullptr || attr->max_recv_dtos <= 0 || attr->max_recv_iov <= 0 ||
        attr->low_watermark < 0 || attr->low_watermark > attr->max_recv_dtos)
        result = wrong_argument(3);
    else if (srq_handle == nullptr)
        result = wrong_argument(4);
    else if (limits.max_srq <= 0)
        result = failed(DAT_MODEL_NOT_SUPPORTED);
    else if (attr->max_recv_dtos > limits.max_srq_wr || attr->max_recv_iov > limits.max_srq_sge)
        result = exhausted(DAT_RESOURCE_SRQ);
    else if ((made = prepare<srq>(*on)) == nullptr)
        result = exhausted(DAT_RESOURCE_MEMORY);
    if (result != DAT_SUCCESS) {
        on->give_back(zone);
        return result;
    }
    ibv_srq_init_attr wanted = {};
    wanted.srq_context = made;
    wanted.attr.max_wr = static_cast<std::uint32_t>(attr->max_recv_dtos);
    wanted.attr.max_sge = static_cast<std::uint32_t>(attr->max_recv_iov);
    made->zone = zone;
    made->queue.reset(ibv_create_srq(zone->domain.get(), &wanted));
    const int error = made->queue ? 0 : errno;
    made->max_iov = static_cast<DAT_COUNT>(wanted.attr.max_sge);
    if (!made->queue || !made->fit(wanted.attr.max_wr)) {
        discard(made);
        on->give_back(zone);
        return error != 0 ? failed_with(error, DAT_RESOURCE_SRQ) : exhausted(DAT_RESOURCE_MEMORY);
    }
    on->adopt(made);
    // The device may tell of it at once, so its handle is good before.
    if (attr->low_watermark > 0)
        result = srq_set_lw(made, attr->low_watermark);
    if (result != DAT_SUCCESS) {
        srq_free(made);
        return result;
    }
    *srq_handle = made;
    return DAT_SUCCESS;
}

DAT_RETURN srq_free(DAT_SRQ_HANDLE srq_handle) noexcept {
    srq *const one = called_with<srq>(srq_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_SRQ);
    ia &on = *one->home;
    pz *const zone = one->zone;
    const DAT_RETURN result =
        on.free_unused(one, DAT_INVALID_STATE_SRQ_IN_USE, DAT_INVALID_HANDLE_SRQ);
    if (result == DAT_SUCCESS)
        on.give_back(zone);
    return result;
}

DAT_RETURN srq_post_recv(DAT_SRQ_HANDLE srq_handle, DAT_COUNT segments, DAT_LMR_TRIPLET *iov,
                         DAT_DTO_COOKIE cookie) noexcept {
    srq *const one = called_with<srq>(srq_handle);
    if (one == nullptr) [[unlikely]]
        return wrong_handle(DAT_INVALID_HANDLE_SRQ);
    if (segments < 0 || segments > one->max_iov) [[unlikely]]
        return wrong_argument(2);
    if (iov == nullptr && segments != 0) [[unlikely]]
        return wrong_argument(3);
    const holding held(one->guard);
    // Of the records at least as many are left as are outstanding, so there is one after it.
    if (one->outstanding >= static_cast<std::uint32_t>(one->max_dtos)) [[unlikely]]
        return exhausted(DAT_RESOURCE_MEMORY);
    record *const first = one->free;
    first->told.user_cookie = cookie;
    first->after = 1;
    ibv_recv_wr request = {reinterpret_cast<std::uintptr_t>(first), nullptr,
                           reinterpret_cast<ibv_sge *>(iov), segments};
    ibv_recv_wr *refused;
    // Counted and taken first: it may complete before the call returns.
    one->free = first->next;
    ++one->outstanding;
    if (const int error = ibv_post_srq_recv(one->queue.get(), &request, &refused)) [[unlikely]] {
        first->after = 0;
        one->free = first;
        --one->outstanding;
        return failed_with(error, DAT_RESOURCE_MEMORY);
    }
    return DAT_SUCCESS;
}

DAT_RETURN srq_query(DAT_SRQ_HANDLE srq_handle, DAT_SRQ_PARAM_MASK mask,
                     DAT_SRQ_PARAM *param) noexcept {
    srq *const one = called_with<srq>(srq_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_SRQ);
    if ((mask & ~DAT_SRQ_FIELD_ALL) != 0)
        return wrong_argument(2);
    if (param == nullptr)
        return wrong_argument(3);
    const holding held(one->guard);
    *param = {};
    param->ia_handle = one->home->handle();
    param->srq_state = one->failed ? DAT_SRQ_STATE_ERROR : DAT_SRQ_STATE_OPERATIONAL;
    param->pz_handle = one->zone;
    param->max_recv_dtos = one->max_dtos;
    param->max_recv_iov = one->max_iov;
    param->low_watermark = one->low_watermark;
    // How many of those posted an endpoint has already taken is the device's knowledge.
    param->available_dto_count = DAT_VALUE_UNKNOWN;
    param->outstanding_dto_count = static_cast<DAT_COUNT>(one->outstanding);
    return DAT_SUCCESS;
}

DAT_RETURN srq_resize(DAT_SRQ_HANDLE srq_handle, DAT_COUNT dtos) noexcept {
    srq *const one = called_with<srq>(srq_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_SRQ);
    if (dtos <= 0 || dtos > one->home->on->limits.max_srq_wr)
        return wrong_argument(2);
    const holding held(one->guard);
    if (dtos < static_cast<DAT_COUNT>(one->outstanding) || dtos < one->low_watermark)
        return wrong_state(DAT_INVALID_STATE_SRQ_IN_USE);
    ibv_srq_attr wanted = {};
    wanted.max_wr = static_cast<std::uint32_t>(dtos);
    if (const int error = ibv_modify_srq(one->queue.get(), &wanted, IBV_SRQ_MAX_WR))
        return failed_with(error, DAT_RESOURCE_SRQ);
    return one->fit(wanted.max_wr) ? DAT_RETURN{DAT_SUCCESS} : exhausted(DAT_RESOURCE_MEMORY);
}

DAT_RETURN srq_set_lw(DAT_SRQ_HANDLE srq_handle, DAT_COUNT watermark) noexcept {
    srq *const one = called_with<srq>(srq_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_SRQ);
    const holding held(one->guard);
    if (watermark < 0 || watermark > one->max_dtos)
        return wrong_argument(2);
    ibv_srq_attr wanted = {};
    wanted.srq_limit = static_cast<std::uint32_t>(watermark);
    if (const int error = ibv_modify_srq(one->queue.get(), &wanted, IBV_SRQ_LIMIT))
        return failed_with(error, DAT_RESOURCE_SRQ);
    one->low_watermark = watermark;
    return DAT_SUCCESS;
}

} // namespace coherdma::dapl

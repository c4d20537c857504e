// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "srq.hpp"

#include "dapl/api.hpp"
#include "dapl/event/evd.hpp"
#include "dapl/ia/device.hpp"
#include "dapl/ia/ia.hpp"
#include "dapl/memory/local_sync.hpp"
#include "dapl/memory/pz.hpp"

#include <algorithm>
#include <cerrno>
#include <new>

namespace coherdma::dapl {

/// After the verbs SRQ was created or resized to min_size: sets max_dtos to the size that the
/// device chose, and adds cookies up to twice that, so that spurious CQEs are detected (srq.hpp).
/// False: no memory.
bool dapl_srq::adjust_size(std::uint32_t min_size) noexcept {
    // The device may choose a larger size, which not every driver returns at creation.
    ibv_srq_attr attr = {};
    const bool has_attr = ibv_query_srq(srq.get(), &attr) == 0;
    const std::uint32_t size = has_attr ? std::max(attr.max_wr, min_size) : min_size;
    if (num_cookies < 2 * size) {
        const std::uint32_t num_new = 2 * size - num_cookies;
        std::unique_ptr<dto_cookie[]> new_cookies(new (std::nothrow) dto_cookie[num_new]());
        std::unique_ptr<DAT_LMR_TRIPLET[]> new_sinks;
        if (ia->needs_sync)
            new_sinks.reset(
                new (std::nothrow)
                    DAT_LMR_TRIPLET[std::size_t{num_new} * static_cast<std::size_t>(max_iov)]);
        if (!new_cookies || (ia->needs_sync && !new_sinks))
            return false;
        try {
            cookies.push_back({std::move(new_cookies), std::move(new_sinks), num_new});
        } catch (const std::bad_alloc &) {
            return false;
        }
        dto_cookie *const added = cookies.back().cookies.get();
        for (std::uint32_t i = 0; i != num_new; ++i) {
            added[i].event.operation = DAT_DTO_RECEIVE;
            added[i].is_recv = 1;
            added[i].object = this;
            *free_tail = &added[i];
            free_tail = &added[i].next;
        }
        num_cookies = 2 * size;
    }
    max_dtos = static_cast<DAT_COUNT>(size);
    return true;
}

DAT_LMR_TRIPLET *dapl_srq::sinks_of(const dto_cookie &cookie) noexcept {
    const auto it = std::ranges::find_if(cookies, [&](const cookie_array &array) {
        return &cookie >= array.cookies.get() && &cookie < array.cookies.get() + array.count;
    });
    const auto pos = static_cast<std::size_t>(&cookie - it->cookies.get());
    return &it->sinks[pos * static_cast<std::size_t>(max_iov)];
}

/// Frees the cookie of a receive. False: it was not posted, or has completed before. Called with
/// the lock of the EVD.
bool dapl_srq::complete(dto_cookie &cookie) noexcept {
    const std::lock_guard guard(lock);
    if (cookie.seq == 0)
        return false;
    cookie.seq = 0;
    cookie.next = nullptr;
    *free_tail = &cookie;
    free_tail = &cookie.next;
    --outstanding;
    return true;
}

/// IBV_EVENT_SRQ_LIMIT_REACHED, in the event thread: reports the low watermark to the consumer.
void dapl_srq::report_limit() noexcept {
    DAT_COUNT limit;
    {
        const std::lock_guard guard(lock);
        limit = low_watermark;
        low_watermark = 0; // reported once per dat_srq_set_lw
    }
    if (limit != 0)
        post_async_event(*ia, DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR, this,
                         DAT_SRQ_LOW_WATERMARK_EVENT);
}

DAT_RETURN srq_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle, DAT_SRQ_ATTR *attr,
                      DAT_SRQ_HANDLE *srq_handle) noexcept {
    const auto ia = handle_to<dapl_ia>(ia_handle);
    if (!ia)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    dapl_pz *const pz = ia->find_and_add_ref<dapl_pz>(pz_handle);
    if (pz == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_PZ);
    const ibv_device_attr &limits = ia->dev->attr;
    dapl_srq *srq = nullptr;
    DAT_RETURN result = DAT_SUCCESS;
    if (attr == nullptr || attr->max_recv_dtos <= 0 || attr->max_recv_iov <= 0 ||
        attr->low_watermark < 0 || attr->low_watermark > attr->max_recv_dtos)
        result = invalid_parameter(3);
    else if (srq_handle == nullptr)
        result = invalid_parameter(4);
    else if (limits.max_srq <= 0)
        result = dat_error(DAT_MODEL_NOT_SUPPORTED);
    else if (attr->max_recv_dtos > limits.max_srq_wr || attr->max_recv_iov > limits.max_srq_sge)
        result = no_resources(DAT_RESOURCE_SRQ);
    else if ((srq = create_object<dapl_srq>(*ia)) == nullptr)
        result = no_resources(DAT_RESOURCE_MEMORY);
    if (result != DAT_SUCCESS) {
        ia->drop_ref(pz);
        return result;
    }
    ibv_srq_init_attr init_attr = {};
    init_attr.srq_context = srq;
    init_attr.attr.max_wr = static_cast<std::uint32_t>(attr->max_recv_dtos);
    init_attr.attr.max_sge = static_cast<std::uint32_t>(attr->max_recv_iov);
    srq->pz = pz;
    srq->srq = shared_handle<ibv_destroy_srq>(ibv_create_srq(pz->pd.get(), &init_attr), pz->pd);
    const int error = srq->srq ? 0 : errno;
    srq->max_iov = static_cast<DAT_COUNT>(init_attr.attr.max_sge);
    if (!srq->srq || !srq->adjust_size(init_attr.attr.max_wr)) {
        destroy_object(srq);
        ia->drop_ref(pz);
        return error != 0 ? from_errno(error, DAT_RESOURCE_SRQ) : no_resources(DAT_RESOURCE_MEMORY);
    }
    ia->insert(srq);
    // The device may report the limit at once, so the handle is published before.
    if (attr->low_watermark > 0)
        result = srq_set_lw(srq, attr->low_watermark);
    if (result != DAT_SUCCESS) {
        srq_free(srq);
        return result;
    }
    *srq_handle = srq;
    return DAT_SUCCESS;
}

DAT_RETURN srq_free(DAT_SRQ_HANDLE srq_handle) noexcept {
    return free_object(handle_to<dapl_srq>(srq_handle), DAT_INVALID_STATE_SRQ_IN_USE, destroy_srq);
}

void destroy_srq(dapl_srq *srq) noexcept {
    dapl_pz *const pz = srq->pz;
    destroy_object(srq);
    dapl_ia::drop_ref(pz);
}

DAT_RETURN srq_post_recv(DAT_SRQ_HANDLE srq_handle, DAT_COUNT segments, DAT_LMR_TRIPLET *iov,
                         DAT_DTO_COOKIE user_cookie) noexcept {
    const auto srq = handle_to<dapl_srq>(srq_handle);
    if (!srq) [[unlikely]]
        return invalid_handle(DAT_INVALID_HANDLE_SRQ);
    if (segments < 0 || segments > srq->max_iov) [[unlikely]]
        return invalid_parameter(2);
    if (iov == nullptr && segments != 0) [[unlikely]]
        return invalid_parameter(3);
    const std::lock_guard guard(srq->lock);
    // There are twice as many cookies as max_dtos, so the list of free ones does not become empty.
    if (srq->outstanding >= static_cast<std::uint32_t>(srq->max_dtos)) [[unlikely]]
        return no_resources(DAT_RESOURCE_MEMORY);
    dto_cookie *const cookie = srq->free_head;
    cookie->event.user_cookie = user_cookie;
    cookie->seq = 1;
    ibv_recv_wr wr = {to_wr_id(*cookie), nullptr, reinterpret_cast<ibv_sge *>(iov), segments};
    ibv_recv_wr *bad_wr;
    dto_cookie *const next = cookie->next;
    if (srq->ia->needs_sync) [[unlikely]] {
        const auto count = static_cast<std::size_t>(segments);
        cookie->sinks = srq->sinks_of(*cookie);
        cookie->set_sinks(iov, count, static_cast<std::uint32_t>(srq->max_iov));
        sync_for_device(*srq->ia, iov, count, true);
        wr.wr_id = to_wr_id(*cookie, sync_flag);
    }
    // Before posting: the receive may complete before ibv_post_srq_recv returns.
    srq->free_head = next;
    ++srq->outstanding;
    if (const int error = ibv_post_srq_recv(srq->srq.get(), &wr, &bad_wr)) [[unlikely]] {
        cookie->seq = 0;
        cookie->next = next;
        srq->free_head = cookie;
        --srq->outstanding;
        return from_errno(error, DAT_RESOURCE_MEMORY);
    }
    return DAT_SUCCESS;
}

DAT_RETURN srq_query(DAT_SRQ_HANDLE srq_handle, DAT_SRQ_PARAM_MASK mask,
                     DAT_SRQ_PARAM *param) noexcept {
    return query_object<dapl_srq>(
        srq_handle, mask, DAT_SRQ_FIELD_ALL, param, [param](dapl_srq &srq) {
            const std::lock_guard guard(srq.lock);
            param->srq_state = srq.failed ? DAT_SRQ_STATE_ERROR : DAT_SRQ_STATE_OPERATIONAL;
            param->pz_handle = srq.pz;
            param->max_recv_dtos = srq.max_dtos;
            param->max_recv_iov = srq.max_iov;
            param->low_watermark = srq.low_watermark;
            // Only the device knows how many of the posted receives EPs have taken.
            param->available_dto_count = DAT_VALUE_UNKNOWN;
            param->outstanding_dto_count = static_cast<DAT_COUNT>(srq.outstanding);
        });
}

DAT_RETURN srq_resize(DAT_SRQ_HANDLE srq_handle, DAT_COUNT dtos) noexcept {
    const auto srq = handle_to<dapl_srq>(srq_handle);
    if (!srq)
        return invalid_handle(DAT_INVALID_HANDLE_SRQ);
    if (dtos <= 0 || dtos > srq->ia->dev->attr.max_srq_wr)
        return invalid_parameter(2);
    const std::lock_guard guard(srq->lock);
    if (dtos < static_cast<DAT_COUNT>(srq->outstanding) || dtos < srq->low_watermark)
        return invalid_state(DAT_INVALID_STATE_SRQ_IN_USE);
    ibv_srq_attr attr = {};
    attr.max_wr = static_cast<std::uint32_t>(dtos);
    if (const int error = ibv_modify_srq(srq->srq.get(), &attr, IBV_SRQ_MAX_WR))
        return from_errno(error, DAT_RESOURCE_SRQ);
    return srq->adjust_size(attr.max_wr) ? DAT_RETURN{DAT_SUCCESS}
                                         : no_resources(DAT_RESOURCE_MEMORY);
}

DAT_RETURN srq_set_lw(DAT_SRQ_HANDLE srq_handle, DAT_COUNT watermark) noexcept {
    const auto srq = handle_to<dapl_srq>(srq_handle);
    if (!srq)
        return invalid_handle(DAT_INVALID_HANDLE_SRQ);
    const std::lock_guard guard(srq->lock);
    if (watermark < 0 || watermark > srq->max_dtos)
        return invalid_parameter(2);
    ibv_srq_attr attr = {};
    attr.srq_limit = static_cast<std::uint32_t>(watermark);
    if (const int error = ibv_modify_srq(srq->srq.get(), &attr, IBV_SRQ_LIMIT))
        return from_errno(error, DAT_RESOURCE_SRQ);
    srq->low_watermark = watermark;
    return DAT_SUCCESS;
}

} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "ep.hpp"

#include "dapl/api.hpp"
#include "dapl/core/deadline.hpp"
#include "dapl/event/upcalls.hpp"
#include "dapl/ia/ia.hpp"
#include "dapl/ia/named_attr.hpp"
#include "dapl/memory/pz.hpp"
#include "srq.hpp"
#include "watermark.hpp"

#include <algorithm>
#include <array>
#include <dat2/dat_ib_extensions.h>

namespace coherdma::dapl {

dapl_ep::dapl_ep(dapl_ia &parent) noexcept
    : object(parent) {}

dapl_ep::~dapl_ep() = default;

void dapl_ep::enable_requests() noexcept {
    const std::lock_guard guard(requests.lock);
    if (qp != nullptr && !is_ud) // see peek_free() in post.hpp
        requests.open();
}

/// The QP is in error: the event thread ends the connection.
void dapl_ep::schedule_broken() noexcept {
    if (current_state() != DAT_EP_STATE_DISCONNECTED)
        event_thread::schedule(when_broken, 0);
}

/// The connection ended: reports, once, that the EP takes no more receives from its SRQ. Called
/// with the lock.
void dapl_ep::report_last_wqe() noexcept {
    if (last_wqe_reported || !has_srq)
        return;
    last_wqe_reported = true;
    post_async_event(*ia, DAT_ASYNC_ERROR_EP_BROKEN, this, DAT_EP_OTHER_ERROR);
}

/// The DAT_INVALID_STATE subtype of an EP state; the array has the order of DAT_EP_STATE.
DAT_UINT32 state_subtype(DAT_EP_STATE state) noexcept {
    static constexpr std::array subtypes = {
        DAT_INVALID_STATE_EP_UNCONNECTED,     DAT_INVALID_STATE_EP_UNCONFIGURED,
        DAT_INVALID_STATE_EP_RESERVED,        DAT_INVALID_STATE_EP_UNCONFRESERVED,
        DAT_INVALID_STATE_EP_PASSCONNPENDING, DAT_INVALID_STATE_EP_UNCONFPASSIVE,
        DAT_INVALID_STATE_EP_ACTCONNPENDING,  DAT_INVALID_STATE_EP_TENTCONNPENDING,
        DAT_INVALID_STATE_EP_UNCONFTENTATIVE, DAT_INVALID_STATE_EP_CONNECTED,
        DAT_INVALID_STATE_EP_DISCPENDING,     DAT_INVALID_STATE_EP_DISCONNECTED,
        DAT_INVALID_STATE_EP_COMPLPENDING,
    };
    static_assert(subtypes.size() == DAT_EP_STATE_COMPLETION_PENDING + 1);
    return static_cast<unsigned>(state) < subtypes.size() ? DAT_UINT32{subtypes[state]}
                                                          : DAT_UINT32{DAT_NO_SUBTYPE};
}

/// The attributes of an EP for which the consumer gives none.
DAT_EP_ATTR default_ep_attr(const dapl_ia &ia) noexcept {
    DAT_EP_ATTR attr = {};
    attr.service_type = DAT_SERVICE_TYPE_RC;
    attr.recv_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG;
    attr.request_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG;
    attr.max_recv_dtos = 16;
    attr.max_request_dtos = 16;
    attr.max_recv_iov = std::min(4, ia.dev->attr.max_sge);
    attr.max_request_iov = std::min(4, ia.dev->attr.max_sge);
    attr.max_rdma_read_in = std::min(4, ia.dev->attr.max_qp_rd_atom);
    attr.max_rdma_read_out = std::min(4, ia.dev->attr.max_qp_init_rd_atom);
    attr.srq_soft_hw = DAT_HW_DEFAULT;
    validate_ep_attr(ia, attr, 0);
    return attr;
}

namespace {

bool is_known_service(const device &dev, DAT_SERVICE_TYPE type) noexcept {
    return type == DAT_SERVICE_TYPE_RC ||
           (static_cast<unsigned>(type) == DAT_IB_SERVICE_TYPE_UD && dev.has_ud());
}

} // namespace

DAT_RETURN validate_ep_attr(const dapl_ia &ia, DAT_EP_ATTR &attr, unsigned argument) noexcept {
    const ibv_device_attr &limits = ia.dev->attr;
    const DAT_SEG_LENGTH max_size = ia.dev->port_attr.max_msg_sz;
    if (attr.max_message_size == 0)
        attr.max_message_size = max_size;
    if (attr.max_rdma_size == 0)
        attr.max_rdma_size = max_size;
    if (attr.max_rdma_read_iov == 0)
        attr.max_rdma_read_iov = std::min(max_read_segments(*ia.dev), attr.max_request_iov);
    if (attr.max_rdma_write_iov == 0)
        attr.max_rdma_write_iov = attr.max_request_iov;
    const auto is_out_of_range = [](DAT_COUNT value, int max) {
        return value < 0 || value > max;
    };
    if (!is_known_service(*ia.dev, attr.service_type) || attr.qos != DAT_QOS_BEST_EFFORT ||
        attr.max_message_size > max_size || attr.max_rdma_size > max_size ||
        is_out_of_range(attr.max_recv_dtos, limits.max_qp_wr) ||
        is_out_of_range(attr.max_request_dtos, limits.max_qp_wr) ||
        is_out_of_range(attr.max_recv_iov, limits.max_sge) ||
        is_out_of_range(attr.max_request_iov, limits.max_sge) ||
        is_out_of_range(attr.max_rdma_read_in, limits.max_qp_rd_atom) ||
        is_out_of_range(attr.max_rdma_read_out, limits.max_qp_init_rd_atom) ||
        is_out_of_range(attr.max_rdma_read_iov, max_read_segments(*ia.dev)) ||
        is_out_of_range(attr.max_rdma_write_iov, limits.max_sge))
        return invalid_parameter(argument);
    return DAT_SUCCESS;
}

namespace {

/// Calls the function for each EVD of which each completion wakes waiters, as far as it depends on
/// this EP: twice for an EVD of both directions.
void for_each_unsolicited(const ep_refs &refs, const DAT_EP_ATTR &attr,
                          void (dapl_evd::*function)() noexcept) noexcept {
    for (const auto &[evd, flags] : {std::pair(refs.recv_evd, attr.recv_completion_flags),
                                     std::pair(refs.request_evd, attr.request_completion_flags)})
        if (evd != nullptr && (flags & DAT_COMPLETION_SOLICITED_WAIT_FLAG) == 0) {
            const std::lock_guard guard(evd->lock);
            (evd->*function)();
        }
}

/// Takes a reference of the object of each handle that is not DAT_HANDLE_NULL. On an error the
/// caller drops those that were taken.
DAT_RETURN get_refs(dapl_ia &ia, ep_refs &refs, DAT_PZ_HANDLE pz_handle, DAT_EVD_HANDLE recv_evd,
                    DAT_EVD_HANDLE request_evd, DAT_EVD_HANDLE connect_evd) noexcept {
    refs.pz = ia.find_and_add_ref<dapl_pz>(pz_handle);
    if (refs.pz == nullptr && pz_handle != DAT_HANDLE_NULL)
        return invalid_handle(DAT_INVALID_HANDLE_PZ);
    refs.recv_evd = require_stream(ia.find_and_add_ref<dapl_evd>(recv_evd), DAT_EVD_DTO_FLAG);
    if (refs.recv_evd == nullptr && recv_evd != DAT_HANDLE_NULL)
        return invalid_handle(DAT_INVALID_HANDLE_EVD_RECV);
    refs.request_evd = require_stream(ia.find_and_add_ref<dapl_evd>(request_evd), DAT_EVD_DTO_FLAG);
    if (refs.request_evd == nullptr && request_evd != DAT_HANDLE_NULL)
        return invalid_handle(DAT_INVALID_HANDLE_EVD_REQUEST);
    // May belong to another IA: OFED's dapltest has one connect EVD for the EPs of several IAs.
    refs.connect_evd = require_stream(dapl_ia::find_any_and_add_ref<dapl_evd>(connect_evd),
                                      DAT_EVD_CONNECTION_FLAG);
    if (refs.connect_evd == nullptr && connect_evd != DAT_HANDLE_NULL)
        return invalid_handle(DAT_INVALID_HANDLE_EVD_CONN);
    return DAT_SUCCESS;
}

/// Sets attr to the consumer's attributes, or to the defaults. argument: the number of the
/// attributes in DAT's call.
DAT_RETURN check_ep_attr(const dapl_ia &ia, const ep_refs &refs, const DAT_EP_ATTR *consumer_attr,
                         unsigned argument, DAT_EP_ATTR &attr) noexcept {
    attr = consumer_attr != nullptr ? *consumer_attr : default_ep_attr(ia);
    if (consumer_attr == nullptr) {
        if (refs.recv_evd == nullptr)
            attr.max_recv_dtos = attr.max_recv_iov = 0;
        if (refs.request_evd == nullptr)
            attr.max_request_dtos = attr.max_request_iov = 0;
        return DAT_SUCCESS;
    }
    // With an SRQ max_recv_dtos and max_recv_iov need not match recv_evd.
    if ((refs.srq == nullptr && (refs.recv_evd == nullptr) != (attr.max_recv_dtos == 0)) ||
        (refs.request_evd == nullptr) != (attr.max_request_dtos == 0) ||
        (refs.srq == nullptr && refs.recv_evd != nullptr && attr.max_recv_iov == 0) ||
        (refs.request_evd != nullptr && attr.max_request_iov == 0))
        return invalid_parameter(argument);
    return validate_ep_attr(ia, attr, argument);
}

/// dat_ep_create and, unless srq_handle is nullptr, dat_ep_create_with_srq.
DAT_RETURN create(dapl_ia &ia, DAT_PZ_HANDLE pz_handle, DAT_EVD_HANDLE recv_evd,
                  DAT_EVD_HANDLE request_evd, DAT_EVD_HANDLE connect_evd,
                  DAT_SRQ_HANDLE *srq_handle, const DAT_EP_ATTR *consumer_attr,
                  DAT_EP_HANDLE *ep_handle) noexcept {
    ep_refs refs;
    const unsigned argument = srq_handle != nullptr ? 7 : 6;
    DAT_EP_ATTR attr;
    DAT_RETURN result = get_refs(ia, refs, pz_handle, recv_evd, request_evd, connect_evd);
    if (result == DAT_SUCCESS && srq_handle != nullptr) {
        refs.srq = ia.find_and_add_ref<dapl_srq>(*srq_handle);
        if (refs.srq == nullptr)
            result = invalid_handle(DAT_INVALID_HANDLE_SRQ);
    }
    if (result == DAT_SUCCESS)
        result = check_ep_attr(ia, refs, consumer_attr, argument, attr);
    if (result == DAT_SUCCESS && ep_handle == nullptr)
        result = invalid_parameter(argument + 1);
    dapl_ep *ep = nullptr;
    if (result == DAT_SUCCESS)
        result = create_ep_object(ia, refs, attr, ep);
    if (result != DAT_SUCCESS) {
        refs.drop_refs();
        return result;
    }
    ia.insert(ep);
    *ep_handle = ep;
    return DAT_SUCCESS;
}

} // namespace

void ep_refs::drop_refs() const noexcept {
    dapl_ia::drop_ref(pz);
    dapl_ia::drop_ref(recv_evd);
    dapl_ia::drop_ref(request_evd);
    dapl_ia::drop_ref(connect_evd);
    dapl_ia::drop_ref(srq);
}

/// Sets the references and attributes of an EP without a QP. Posts read the limits without a lock.
void set_refs(dapl_ep &ep, const ep_refs &refs, const DAT_EP_ATTR &attr) noexcept {
    const std::lock_guard guard(ep.lock);
    for_each_unsolicited(refs, attr, &dapl_evd::add_unsolicited);
    for_each_unsolicited(ep, ep.attr, &dapl_evd::remove_unsolicited);
    static_cast<ep_refs &>(ep) = refs;
    ep.has_srq = refs.srq != nullptr;
    ep.attr = attr;
    ep.max_request_iov = attr.max_request_iov;
    ep.max_recv_iov = attr.max_recv_iov;
    ep.max_read_iov = attr.max_rdma_read_iov;
    ep.max_write_iov = attr.max_rdma_write_iov;
}

/// Creates an EP, which is not published. The references pass to it on success.
DAT_RETURN create_ep_object(dapl_ia &ia, const ep_refs &refs, const DAT_EP_ATTR &attr,
                            dapl_ep *&ep) noexcept {
    ep = create_object<dapl_ep>(ia);
    if (ep == nullptr)
        return no_resources(DAT_RESOURCE_MEMORY);
    set_refs(*ep, refs, attr);
    ep->is_ud = is_ud_service(attr.service_type);
    ep->max_message = ia.dev->port_attr.max_msg_sz;
    if (refs.pz != nullptr) {
        const DAT_RETURN result = ep_create_qp(*ep);
        if (result != DAT_SUCCESS) {
            set_refs(*ep, {}, attr);
            destroy_object(ep);
            return result;
        }
    }
    return DAT_SUCCESS;
}

DAT_RETURN ep_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle, DAT_EVD_HANDLE recv_evd,
                     DAT_EVD_HANDLE request_evd, DAT_EVD_HANDLE connect_evd,
                     const DAT_EP_ATTR *attr, DAT_EP_HANDLE *ep_handle) noexcept {
    const auto ia = handle_to<dapl_ia>(ia_handle);
    if (!ia)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    return create(*ia, pz_handle, recv_evd, request_evd, connect_evd, nullptr, attr, ep_handle);
}

DAT_RETURN ep_create_with_srq(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle,
                              DAT_EVD_HANDLE recv_evd, DAT_EVD_HANDLE request_evd,
                              DAT_EVD_HANDLE connect_evd, DAT_SRQ_HANDLE srq_handle,
                              const DAT_EP_ATTR *attr, DAT_EP_HANDLE *ep_handle) noexcept {
    const auto ia = handle_to<dapl_ia>(ia_handle);
    if (!ia)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    return create(*ia, pz_handle, recv_evd, request_evd, connect_evd, &srq_handle, attr, ep_handle);
}

DAT_RETURN ep_free(DAT_EP_HANDLE ep_handle) noexcept {
    auto ep = handle_to<dapl_ep>(ep_handle);
    // If an RSP or a CR refers to the EP, the error has its state.
    const DAT_UINT32 in_use = ep ? state_subtype(ep->current_state()) : DAT_UINT32{DAT_NO_SUBTYPE};
    return free_object(std::move(ep), in_use, destroy_ep);
}

/// The EP was removed from its IA: no call uses it, but the event thread may.
void destroy_ep(dapl_ep *ep) noexcept {
    cm::abort_conn(*ep);
    // From now on no completion schedules when_broken...
    ep->state.store(DAT_EP_STATE_DISCONNECTED, std::memory_order_release);
    cm::ud_free_peers(*ep);
    ep_destroy_qp(*ep);
    // ... and a thread that was about to has done so: it held an EVD's lock, which ep_destroy_qp
    // took.
    event_thread::cancel(ep->when_broken);
    const ep_refs refs = *ep;
    set_refs(*ep, {}, ep->attr);
    refs.drop_refs();
    destroy_object(ep);
}

/// Gives a disconnected EP a new QP.
DAT_RETURN ep_reset(DAT_EP_HANDLE ep_handle) noexcept {
    const auto ep = handle_to<dapl_ep>(ep_handle);
    if (!ep)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    const std::lock_guard setup_guard(ep->setup_lock);
    const DAT_EP_STATE state = ep->current_state();
    if (state == DAT_EP_STATE_UNCONNECTED)
        return DAT_SUCCESS;
    if (state != DAT_EP_STATE_DISCONNECTED)
        return invalid_state(state_subtype(state));
    cm::abort_conn(*ep);
    cm::ud_free_peers(*ep);
    ep_wait_for_flush(*ep);
    ep_destroy_qp(*ep);
    event_thread::cancel(ep->when_broken);
    const DAT_RETURN result = ep_create_qp(*ep);
    if (result != DAT_SUCCESS)
        return result;
    const std::lock_guard guard(ep->lock);
    ep->last_wqe_reported = false;
    ep->remote = {};
    ep->remote_qual = 0;
    ep->state.store(DAT_EP_STATE_UNCONNECTED, std::memory_order_release);
    return DAT_SUCCESS;
}

DAT_RETURN ep_get_status(DAT_EP_HANDLE ep_handle, DAT_EP_STATE *state, DAT_BOOLEAN *recv_idle,
                         DAT_BOOLEAN *request_idle) noexcept {
    const auto ep = handle_to<dapl_ep>(ep_handle);
    if (!ep)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    if (state != nullptr)
        *state = ep->current_state();
    if (recv_idle != nullptr)
        *recv_idle = ep->receives.outstanding() == 0 ? DAT_TRUE : DAT_FALSE;
    if (request_idle != nullptr)
        *request_idle = ep->requests.outstanding() == 0 ? DAT_TRUE : DAT_FALSE;
    return DAT_SUCCESS;
}

/// With an SRQ, counts the receives that were completed and not dequeued.
DAT_RETURN ep_recv_query(DAT_EP_HANDLE ep_handle, DAT_COUNT *allocated, DAT_COUNT *span) noexcept {
    const auto ep = handle_to<dapl_ep>(ep_handle);
    if (!ep)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    const std::lock_guard setup_guard(ep->setup_lock); // recv_evd does not change
    if (ep->has_srq && ep->recv_evd != nullptr) {
        const std::lock_guard guard(ep->recv_evd->lock);
        ep->recv_evd->drain_cq();
    }
    const DAT_COUNT count = ep->has_srq ? ep->srq_undequeued.load(std::memory_order_relaxed)
                                        : static_cast<DAT_COUNT>(ep->receives.outstanding());
    if (allocated != nullptr)
        *allocated = count;
    if (span != nullptr)
        *span = count;
    return DAT_SUCCESS;
}

DAT_RETURN ep_set_watermark(DAT_EP_HANDLE ep_handle, DAT_COUNT soft, DAT_COUNT hard) noexcept {
    const auto ep = handle_to<dapl_ep>(ep_handle);
    if (!ep)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    if (soft < DAT_WATERMARK_INFINITE)
        return invalid_parameter(2);
    if (hard < DAT_WATERMARK_INFINITE)
        return invalid_parameter(3);
    // Watermarks limit the receives that the EP takes from an SRQ.
    if (!ep->has_srq)
        return invalid_state(DAT_INVALID_STATE_EP_RECV_WATERMARK);
    ep->soft_watermark.store(soft, std::memory_order_relaxed);
    ep->hard_watermark.store(hard, std::memory_order_relaxed);
    check_watermarks(*ep);
    return DAT_SUCCESS;
}

} // namespace coherdma::dapl

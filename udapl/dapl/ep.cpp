// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "ep.hpp"

#include "api.hpp"
#include "async.hpp"
#include "clock.hpp"
#include "cm/connection.hpp"
#include "evd.hpp"
#include "extensions/ud.hpp"
#include "ia.hpp"
#include "named.hpp"
#include "pz.hpp"
#include "srq.hpp"
#include "watermark.hpp"

#include <algorithm>
#include <dat2/dat_ib_extensions.h>

namespace coherdma::dapl {

ep::ep(ia &of) noexcept
    : object(of)
    , when_broken(*this, cm::broken)
    , when_late(*this, cm::late)
    , when_drained(*this, cm::drained) {
    wanted.num_sge = wanted_receive.num_sge = 1;
}

ep::~ep() = default;

void ep::open() noexcept {
    const holding held(requests.guard);
    if (qp != nullptr)
        requests.open();
}

void ep::broken() noexcept {
    if (now() == DAT_EP_STATE_CONNECTED)
        events::at(when_broken, 0);
}

void ep::no_more_receives() noexcept {
    {
        const holding held(guard);
        if (last_told || !shares)
            return;
        last_told = true;
    }
    report(*home, DAT_ASYNC_ERROR_EP_BROKEN, this, DAT_EP_OTHER_ERROR);
}

DAT_UINT32 subtype_of(DAT_EP_STATE state) noexcept {
    switch (state) {
    case DAT_EP_STATE_UNCONNECTED:
        return DAT_INVALID_STATE_EP_UNCONNECTED;
    case DAT_EP_STATE_UNCONFIGURED_UNCONNECTED:
        return DAT_INVALID_STATE_EP_UNCONFIGURED;
    case DAT_EP_STATE_RESERVED:
        return DAT_INVALID_STATE_EP_RESERVED;
    case DAT_EP_STATE_UNCONFIGURED_RESERVED:
        return DAT_INVALID_STATE_EP_UNCONFRESERVED;
    case DAT_EP_STATE_PASSIVE_CONNECTION_PENDING:
        return DAT_INVALID_STATE_EP_PASSCONNPENDING;
    case DAT_EP_STATE_UNCONFIGURED_PASSIVE:
        return DAT_INVALID_STATE_EP_UNCONFPASSIVE;
    case DAT_EP_STATE_ACTIVE_CONNECTION_PENDING:
        return DAT_INVALID_STATE_EP_ACTCONNPENDING;
    case DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING:
        return DAT_INVALID_STATE_EP_TENTCONNPENDING;
    case DAT_EP_STATE_UNCONFIGURED_TENTATIVE:
        return DAT_INVALID_STATE_EP_UNCONFTENTATIVE;
    case DAT_EP_STATE_CONNECTED:
        return DAT_INVALID_STATE_EP_CONNECTED;
    case DAT_EP_STATE_DISCONNECT_PENDING:
        return DAT_INVALID_STATE_EP_DISCPENDING;
    case DAT_EP_STATE_DISCONNECTED:
        return DAT_INVALID_STATE_EP_DISCONNECTED;
    case DAT_EP_STATE_COMPLETION_PENDING:
        return DAT_INVALID_STATE_EP_COMPLPENDING;
    default:
        return DAT_NO_SUBTYPE;
    }
}

DAT_EP_ATTR default_attributes(const ia &on) noexcept {
    DAT_EP_ATTR attr = {};
    attr.service_type = DAT_SERVICE_TYPE_RC;
    attr.recv_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG;
    attr.request_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG;
    attr.max_recv_dtos = 16;
    attr.max_request_dtos = 16;
    attr.max_recv_iov = std::min(4, on.on->limits.max_sge);
    attr.max_request_iov = std::min(4, on.on->limits.max_sge);
    attr.max_rdma_read_in = std::min(4, on.on->limits.max_qp_rd_atom);
    attr.max_rdma_read_out = std::min(4, on.on->limits.max_qp_init_rd_atom);
    attr.srq_soft_hw = DAT_HW_DEFAULT;
    complete_attributes(on, attr, 0);
    return attr;
}

namespace {

bool known_service(const device &on, DAT_SERVICE_TYPE type) noexcept {
    return type == DAT_SERVICE_TYPE_RC ||
           (static_cast<unsigned>(type) == DAT_IB_SERVICE_TYPE_UD && extensions::datagrams(on));
}

} // namespace

DAT_RETURN complete_attributes(const ia &on, DAT_EP_ATTR &attr, unsigned argument) noexcept {
    const ibv_device_attr &limits = on.on->limits;
    const DAT_SEG_LENGTH largest = on.on->state.max_msg_sz;
    if (attr.max_message_size == 0)
        attr.max_message_size = largest;
    if (attr.max_rdma_size == 0)
        attr.max_rdma_size = largest;
    if (attr.max_rdma_read_iov == 0)
        attr.max_rdma_read_iov = std::min(max_read_segments(*on.on), attr.max_request_iov);
    if (attr.max_rdma_write_iov == 0)
        attr.max_rdma_write_iov = attr.max_request_iov;
    const auto outside = [](DAT_COUNT value, int most) {
        return value < 0 || value > most;
    };
    if (!known_service(*on.on, attr.service_type) || attr.qos != DAT_QOS_BEST_EFFORT ||
        attr.max_message_size > largest || attr.max_rdma_size > largest ||
        outside(attr.max_recv_dtos, limits.max_qp_wr) ||
        outside(attr.max_request_dtos, limits.max_qp_wr) ||
        outside(attr.max_recv_iov, limits.max_sge) ||
        outside(attr.max_request_iov, limits.max_sge) ||
        outside(attr.max_rdma_read_in, limits.max_qp_rd_atom) ||
        outside(attr.max_rdma_read_out, limits.max_qp_init_rd_atom) ||
        outside(attr.max_rdma_read_iov, max_read_segments(*on.on)) ||
        outside(attr.max_rdma_write_iov, limits.max_sge))
        return wrong_argument(argument);
    return DAT_SUCCESS;
}

namespace {

// Whether waiters are woken by each completion, by solicited ones, or may ask for several.
void configure(evd *one, DAT_COMPLETION_FLAGS flags) noexcept {
    if (one == nullptr)
        return;
    const holding held(one->guard);
    one->solicited = (flags & DAT_COMPLETION_SOLICITED_WAIT_FLAG) != 0;
}

struct parts {
    ia &on;
    pz *zone = nullptr;
    evd *recv = nullptr, *request = nullptr, *connect = nullptr;
    srq *shared = nullptr;

    void give_back() noexcept {
        on.give_back(zone);
        on.give_back(recv);
        on.give_back(request);
        on.give_back(connect);
        on.give_back(shared);
    }
};

evd *stream(ia &on, DAT_EVD_HANDLE wanted, DAT_EVD_FLAGS flag) noexcept {
    evd *const one = on.borrow<evd>(wanted);
    if (one != nullptr && (one->flags & flag) == 0) {
        on.give_back(one);
        return nullptr;
    }
    return one;
}

DAT_RETURN collect(parts &all, DAT_PZ_HANDLE pz_handle, DAT_EVD_HANDLE recv, DAT_EVD_HANDLE request,
                   DAT_EVD_HANDLE connect) noexcept {
    all.zone = all.on.borrow<pz>(pz_handle);
    if (all.zone == nullptr && pz_handle != DAT_HANDLE_NULL)
        return wrong_handle(DAT_INVALID_HANDLE_PZ);
    all.recv = stream(all.on, recv, DAT_EVD_DTO_FLAG);
    if (all.recv == nullptr && recv != DAT_HANDLE_NULL)
        return wrong_handle(DAT_INVALID_HANDLE_EVD_RECV);
    all.request = stream(all.on, request, DAT_EVD_DTO_FLAG);
    if (all.request == nullptr && request != DAT_HANDLE_NULL)
        return wrong_handle(DAT_INVALID_HANDLE_EVD_REQUEST);
    // OFED's dapltest has one for the endpoints of several IAs.
    all.connect = ia::borrow_any<evd>(connect);
    if (all.connect != nullptr && (all.connect->flags & DAT_EVD_CONNECTION_FLAG) == 0) {
        all.on.give_back(all.connect);
        all.connect = nullptr;
    }
    if (all.connect == nullptr && connect != DAT_HANDLE_NULL)
        return wrong_handle(DAT_INVALID_HANDLE_EVD_CONN);
    return DAT_SUCCESS;
}

/// argument: which one the attributes are.
DAT_RETURN attributes(const parts &all, const DAT_EP_ATTR *given, unsigned argument,
                      DAT_EP_ATTR &attr) noexcept {
    attr = given != nullptr ? *given : default_attributes(all.on);
    if (given == nullptr) {
        if (all.recv == nullptr)
            attr.max_recv_dtos = attr.max_recv_iov = 0;
        if (all.request == nullptr)
            attr.max_request_dtos = attr.max_request_iov = 0;
        return DAT_SUCCESS;
    }
    // Whose receives an SRQ has needs none of its own, but may say how many.
    if ((all.shared == nullptr && (all.recv == nullptr) != (attr.max_recv_dtos == 0)) ||
        (all.request == nullptr) != (attr.max_request_dtos == 0) ||
        (all.shared == nullptr && all.recv != nullptr && attr.max_recv_iov == 0) ||
        (all.request != nullptr && attr.max_request_iov == 0))
        return wrong_argument(argument);
    return complete_attributes(all.on, attr, argument);
}

DAT_RETURN create(ia &on, DAT_PZ_HANDLE pz_handle, DAT_EVD_HANDLE recv, DAT_EVD_HANDLE request,
                  DAT_EVD_HANDLE connect, DAT_SRQ_HANDLE *srq_handle, const DAT_EP_ATTR *given,
                  DAT_EP_HANDLE *ep_handle) noexcept {
    parts all{on};
    const unsigned argument = srq_handle != nullptr ? 7 : 6;
    DAT_EP_ATTR attr;
    DAT_RETURN result = collect(all, pz_handle, recv, request, connect);
    if (result == DAT_SUCCESS && srq_handle != nullptr) {
        all.shared = on.borrow<srq>(*srq_handle);
        if (all.shared == nullptr)
            result = wrong_handle(DAT_INVALID_HANDLE_SRQ);
    }
    if (result == DAT_SUCCESS)
        result = attributes(all, given, argument, attr);
    if (result == DAT_SUCCESS && ep_handle == nullptr)
        result = wrong_argument(argument + 1);
    ep *made = nullptr;
    if (result == DAT_SUCCESS)
        result = make_ep(on, all.zone, all.recv, all.request, all.connect, all.shared, attr, made);
    if (result != DAT_SUCCESS) {
        all.give_back();
        return result;
    }
    on.adopt(made);
    *ep_handle = made;
    return DAT_SUCCESS;
}

} // namespace

DAT_RETURN make_ep(ia &on, pz *zone, evd *recv, evd *request, evd *connect, srq *shared,
                   const DAT_EP_ATTR &attr, ep *&made) noexcept {
    made = prepare<ep>(on);
    if (made == nullptr)
        return exhausted(DAT_RESOURCE_MEMORY);
    made->zone = zone;
    made->recv_evd = recv;
    made->request_evd = request;
    made->connect_evd = connect;
    made->shared = shared;
    made->shares = shared != nullptr;
    if (extensions::is_datagram(attr))
        made->receive = DAT_IB_DTO_RECV_UD;
    made->attr = attr;
    made->longest = on.on->state.max_msg_sz;
    made->request_iov = attr.max_request_iov;
    made->recv_iov = attr.max_recv_iov;
    made->read_iov = attr.max_rdma_read_iov;
    made->write_iov = attr.max_rdma_write_iov;
    if (zone != nullptr) {
        const DAT_RETURN result = make_pair(*made);
        if (result != DAT_SUCCESS) {
            discard(made);
            return result;
        }
    }
    configure(recv, attr.recv_completion_flags);
    configure(request, attr.request_completion_flags);
    return DAT_SUCCESS;
}

DAT_RETURN ep_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle, DAT_EVD_HANDLE recv,
                     DAT_EVD_HANDLE request, DAT_EVD_HANDLE connect, const DAT_EP_ATTR *attr,
                     DAT_EP_HANDLE *ep_handle) noexcept {
    ia *const on = called_with<ia>(ia_handle);
    if (on == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_IA);
    return create(*on, pz_handle, recv, request, connect, nullptr, attr, ep_handle);
}

DAT_RETURN ep_create_with_srq(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle, DAT_EVD_HANDLE recv,
                              DAT_EVD_HANDLE request, DAT_EVD_HANDLE connect,
                              DAT_SRQ_HANDLE srq_handle, const DAT_EP_ATTR *attr,
                              DAT_EP_HANDLE *ep_handle) noexcept {
    ia *const on = called_with<ia>(ia_handle);
    if (on == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_IA);
    return create(*on, pz_handle, recv, request, connect, &srq_handle, attr, ep_handle);
}

DAT_RETURN ep_free(DAT_EP_HANDLE ep_handle) noexcept {
    ep *const one = called_with<ep>(ep_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EP);
    bool in_use;
    if (!one->home->disown(one, in_use)) // A listener or a request has it.
        return in_use ? wrong_state(subtype_of(one->now())) : wrong_handle(DAT_INVALID_HANDLE_EP);
    end_ep(one);
    return DAT_SUCCESS;
}

namespace {

void drop_tasks(ep &one) noexcept {
    events::drop(one.when_broken);
    events::drop(one.when_late);
    events::drop(one.when_drained);
}

} // namespace

void end_ep(ep *one) noexcept {
    cm::abandon(*one);
    // From now on no completion calls it broken...
    one->state.store(DAT_EP_STATE_DISCONNECTED, std::memory_order_release);
    extensions::forget_peers(*one);
    end_pair(*one);
    // ... and whoever was about to, has done so: it held an EVD's lock, as end_pair did.
    drop_tasks(*one);
    forget_in_async(one);
    parts{*one->home, one->zone, one->recv_evd, one->request_evd, one->connect_evd, one->shared}
        .give_back();
    discard(one);
}

DAT_RETURN ep_reset(DAT_EP_HANDLE ep_handle) noexcept {
    ep *const one = called_with<ep>(ep_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EP);
    const DAT_EP_STATE state = one->now();
    if (state == DAT_EP_STATE_UNCONNECTED)
        return DAT_SUCCESS;
    if (state != DAT_EP_STATE_DISCONNECTED)
        return wrong_state(subtype_of(state));
    cm::abandon(*one);
    end_pair(*one);
    drop_tasks(*one);
    const DAT_RETURN result = make_pair(*one);
    if (result != DAT_SUCCESS)
        return result;
    const holding held(one->guard);
    one->last_told = false;
    one->remote = {};
    one->remote_qual = 0;
    one->state.store(DAT_EP_STATE_UNCONNECTED, std::memory_order_release);
    return DAT_SUCCESS;
}

DAT_RETURN ep_get_status(DAT_EP_HANDLE ep_handle, DAT_EP_STATE *state, DAT_BOOLEAN *recv_idle,
                         DAT_BOOLEAN *request_idle) noexcept {
    ep *const one = called_with<ep>(ep_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EP);
    if (state != nullptr)
        *state = one->now();
    if (recv_idle != nullptr)
        *recv_idle = one->receives.outstanding() == 0 ? DAT_TRUE : DAT_FALSE;
    if (request_idle != nullptr)
        *request_idle = one->requests.outstanding() == 0 ? DAT_TRUE : DAT_FALSE;
    return DAT_SUCCESS;
}

DAT_RETURN ep_recv_query(DAT_EP_HANDLE ep_handle, DAT_COUNT *allocated, DAT_COUNT *span) noexcept {
    ep *const one = called_with<ep>(ep_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EP);
    if (one->shares && one->recv_evd != nullptr) {
        const holding held(one->recv_evd->guard);
        one->recv_evd->gather();
    }
    const DAT_COUNT known = one->shares ? one->untaken.load(std::memory_order_relaxed)
                                        : static_cast<DAT_COUNT>(one->receives.outstanding());
    if (allocated != nullptr)
        *allocated = known;
    if (span != nullptr)
        *span = known;
    return DAT_SUCCESS;
}

DAT_RETURN ep_set_watermark(DAT_EP_HANDLE ep_handle, DAT_COUNT soft, DAT_COUNT hard) noexcept {
    ep *const one = called_with<ep>(ep_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EP);
    if (soft < DAT_WATERMARK_INFINITE)
        return wrong_argument(2);
    if (hard < DAT_WATERMARK_INFINITE)
        return wrong_argument(3);
    // They limit what an endpoint may take from an SRQ; without one there is nothing to limit.
    if (!one->shares)
        return wrong_state(DAT_INVALID_STATE_EP_RECV_WATERMARK);
    one->soft_watermark.store(soft, std::memory_order_relaxed);
    one->hard_watermark.store(hard, std::memory_order_relaxed);
    compare_with_marks(*one);
    return DAT_SUCCESS;
}

} // namespace coherdma::dapl

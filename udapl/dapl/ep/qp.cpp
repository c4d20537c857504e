// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Creating and destroying an EP's QP.

#include "dapl/core/settings.hpp"
#include "dapl/event/evd.hpp"
#include "dapl/ia/ia.hpp"
#include "dapl/memory/pz.hpp"
#include "ended_attempt.hpp"
#include "ep.hpp"
#include "srq.hpp"

#include <algorithm>
#include <cerrno>
#include <dat2/dat_ib_extensions.h>
#include <rdma/rdma_cma.h>
#include <utility>

namespace coherdma::dapl {

namespace {

/// The EVD's CQ. Without an EVD, a CQ that no thread polls, as verbs requires one.
std::shared_ptr<ibv_cq> get_cq(dapl_ep &ep, const dapl_evd *evd) noexcept {
    if (evd != nullptr)
        return evd->cq;
    if (!ep.dummy_cq)
        ep.dummy_cq = shared_handle<ibv_destroy_cq>(
            ibv_create_cq(ep.ia->ctx(), 1, nullptr, nullptr, 0), ep.ia->dev->context);
    return ep.dummy_cq;
}

/// Moves a new UD QP to RTS. 0 or an errno.
int ud_qp_to_rts(dapl_ep &ep) noexcept {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = ep.ia->dev->port;
    attr.qkey = RDMA_UDP_QKEY;
    ibv_qp *const qp = ep.owned_qp.get();
    if (const int error =
            ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
        return error;
    attr.qp_state = IBV_QPS_RTR;
    if (const int error = ibv_modify_qp(qp, &attr, IBV_QP_STATE))
        return error;
    attr.qp_state = IBV_QPS_RTS;
    return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

/// Moves a new QP to INIT, so that receives may be posted; a UD QP to RTS. For iWARP the kernel
/// moves the QP's state. 0 or an errno.
int init_qp(dapl_ep &ep) noexcept {
    const device &dev = *ep.ia->dev;
    if (dev.iwarp)
        return 0;
    if (ep.is_ud)
        return ud_qp_to_rts(ep);
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = dev.port;
    attr.qp_access_flags =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    if (dev.attr.atomic_cap != IBV_ATOMIC_NONE)
        attr.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
    return ibv_modify_qp(ep.owned_qp.get(), &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

/// From the attributes of the EP, with at least one entry and segment in each direction.
ibv_qp_init_attr qp_init_attr_for(dapl_ep &ep) noexcept {
    ibv_qp_init_attr init_attr = {};
    init_attr.qp_context = &ep;
    init_attr.send_cq = get_cq(ep, ep.request_evd).get();
    init_attr.recv_cq = get_cq(ep, ep.recv_evd).get();
    init_attr.srq = ep.srq != nullptr ? ep.srq->srq.get() : nullptr;
    init_attr.qp_type = ep.is_ud ? IBV_QPT_UD : IBV_QPT_RC;
    init_attr.cap.max_send_wr = static_cast<std::uint32_t>(std::max(ep.attr.max_request_dtos, 1));
    init_attr.cap.max_recv_wr =
        ep.srq != nullptr ? 0 : static_cast<std::uint32_t>(std::max(ep.attr.max_recv_dtos, 1));
    init_attr.cap.max_send_sge = static_cast<std::uint32_t>(
        std::max({ep.attr.max_request_iov, ep.attr.max_rdma_write_iov, 1}));
    init_attr.cap.max_recv_sge = static_cast<std::uint32_t>(std::max(ep.attr.max_recv_iov, 1));
    // At least 8: an RDMA Atomic Write posts its 8 bytes inline.
    init_attr.cap.max_inline_data = std::max<std::uint32_t>(get_settings().max_inline, 8);
    return init_attr;
}

/// Creates the QP with ibv_create_qp_ex, to enable RDMA Atomic Writes, if the device has them.
/// init_attr.cap: returns what the QP has. ibv_post_send stays usable.
ibv_qp *create_verbs_qp(dapl_ep &ep, ibv_qp_init_attr &init_attr) noexcept {
    ibv_pd *const pd = ep.pz->pd.get();
    if (!ep.ia->dev->has_atomic_write || init_attr.qp_type != IBV_QPT_RC)
        return ibv_create_qp(pd, &init_attr);
    ibv_qp_init_attr_ex attr_ex = {};
    attr_ex.qp_context = init_attr.qp_context;
    attr_ex.send_cq = init_attr.send_cq;
    attr_ex.recv_cq = init_attr.recv_cq;
    attr_ex.srq = init_attr.srq;
    attr_ex.cap = init_attr.cap;
    attr_ex.qp_type = init_attr.qp_type;
    attr_ex.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr_ex.pd = pd;
    attr_ex.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_WRITE;
    ibv_qp *const qp = ibv_create_qp_ex(ep.ia->ctx(), &attr_ex);
    if (qp == nullptr)
        return ibv_create_qp(pd, &init_attr);
    init_attr.cap = attr_ex.cap;
    return qp;
}

/// The QP shares the ownership of its PD, CQs and SRQ, so that they outlive it.
std::shared_ptr<ibv_qp> create_qp(dapl_ep &ep, ibv_qp_init_attr &init_attr) noexcept {
    return shared_handle<ibv_destroy_qp>(create_verbs_qp(ep, init_attr), ep.pz->pd,
                                         get_cq(ep, ep.request_evd), get_cq(ep, ep.recv_evd),
                                         ep.srq != nullptr ? ep.srq->srq : nullptr);
}

/// Makes the new QP the EP's, with empty rings.
DAT_RETURN install_qp(dapl_ep &ep, std::shared_ptr<ibv_qp> new_qp, const ibv_qp_cap &cap) noexcept {
    const std::lock_guard request_guard(ep.requests.lock), recv_guard(ep.receives.lock);
    ep.owned_qp = std::move(new_qp);
    if (const int error = init_qp(ep)) {
        ep.owned_qp.reset();
        return from_errno(error, DAT_RESOURCE_TEP);
    }
    dto_cookie request_cookie = {}, recv_cookie = {};
    request_cookie.event.ep_handle = recv_cookie.event.ep_handle = &ep;
    recv_cookie.event.operation =
        static_cast<DAT_DTOS>(ep.is_ud ? unsigned{DAT_IB_DTO_RECV_UD} : unsigned{DAT_DTO_RECEIVE});
    recv_cookie.is_recv = 1;
    const DAT_COUNT max_recv_dtos = ep.has_srq ? 0 : ep.attr.max_recv_dtos;
    const bool needs_sync = ep.ia->needs_sync;
    if (!ep.requests.init(static_cast<std::uint32_t>(ep.attr.max_request_dtos), request_cookie,
                          needs_sync ? std::max(cap.max_send_sge, 1U) : 0) ||
        !ep.receives.init(static_cast<std::uint32_t>(max_recv_dtos), recv_cookie,
                          needs_sync ? std::max(cap.max_recv_sge, 1U) : 0)) {
        ep.owned_qp.reset();
        return no_resources(DAT_RESOURCE_MEMORY);
    }
    ep.qp = ep.owned_qp.get();
    ep.drain_seq = ep.marker_seq = 0;
    ep.request_failed = false;
    ep.receives.open(); // requests: by enable_requests
    const bool has_segments = std::min({ep.attr.max_request_iov, ep.attr.max_rdma_read_iov,
                                        ep.attr.max_rdma_write_iov}) > 0;
    ep.max_inline = has_segments ? std::min(cap.max_inline_data, get_settings().max_inline) : 0;
    ep.suppress_events.store(false, std::memory_order_relaxed);
    return DAT_SUCCESS;
}

} // namespace

/// Creates the QP of an EP that has a PZ: with room for a marker (drain_requests) and for inline
/// data, unless the device refuses that.
DAT_RETURN ep_create_qp(dapl_ep &ep) noexcept {
    ibv_qp_init_attr init_attr = qp_init_attr_for(ep);
    if (init_attr.send_cq == nullptr || init_attr.recv_cq == nullptr)
        return from_errno(errno, DAT_RESOURCE_TEVD);
    ++init_attr.cap.max_send_wr;
    std::shared_ptr<ibv_qp> new_qp = create_qp(ep, init_attr);
    for (const bool is_inline : {true, false})
        if (!new_qp) {
            init_attr = qp_init_attr_for(ep);
            if (!is_inline)
                init_attr.cap.max_inline_data = 0;
            new_qp = create_qp(ep, init_attr);
        }
    if (!new_qp)
        return from_errno(errno, DAT_RESOURCE_TEP);
    const DAT_RETURN result = install_qp(ep, std::move(new_qp), init_attr.cap);
    if (result != DAT_SUCCESS || ep.srq == nullptr)
        return result;
    // A completion of an SRQ's receive names the QP only.
    return ep.ia->qpn_index.add(ep.qp->qp_num, &ep) ? DAT_RETURN{DAT_SUCCESS}
                                                    : no_resources(DAT_RESOURCE_MEMORY);
}

namespace {

/// Moves the EVD's completions to its queue. evd: or nullptr.
void drain_evd(dapl_evd *evd) noexcept {
    if (evd == nullptr)
        return;
    const std::lock_guard guard(evd->lock);
    evd->drain_cq();
}

/// The ended attempt that still uses the QP, if there is one: on iWARP.
std::shared_ptr<ended_attempt> take_attempt(dapl_ep &ep) noexcept {
    const std::lock_guard guard(ep.lock);
    return std::move(ep.attempt);
}

/// Takes the cookies of a ring, for a QP that outlives its use by the EP. evd: where they complete.
std::unique_ptr<dto_cookie[]> retire_cookies(cookie_ring &ring, dapl_evd *evd) noexcept {
    const std::lock_guard ring_guard(ring.lock);
    if (evd == nullptr)
        return ring.retire();
    const std::lock_guard evd_guard(evd->lock);
    return ring.retire();
}

/// Leaves the QP to an ended attempt, whose thread destroys it when the kernel lets it go.
void retire_qp(dapl_ep &ep, ended_attempt &attempt) noexcept {
    // Before the EVD's lock is taken: a thread that has found the EP by the QP's number holds it.
    if (ep.srq != nullptr)
        ep.ia->qpn_index.remove(ep.owned_qp->qp_num, &ep);
    retired_qp retired;
    retired.qp = std::move(ep.owned_qp);
    retired.requests = retire_cookies(ep.requests, ep.request_evd);
    retired.receives = retire_cookies(ep.receives, ep.recv_evd);
    retired.request_evd = ep.request_evd;
    retired.recv_evd = ep.recv_evd;
    attempt.adopt(std::move(retired));
}

} // namespace

/// Moves what has completed to the EVDs, then destroys the QP, or leaves it to an ended attempt.
/// The caller holds setup_lock, or the EP was removed.
void ep_destroy_qp(dapl_ep &ep) noexcept {
    if (ep.qp == nullptr)
        return;
    drain_evd(ep.request_evd);
    drain_evd(ep.recv_evd);
    const std::uint32_t qp_num = ep.qp->qp_num;
    ep.suppress_events.store(true, std::memory_order_relaxed);
    {
        const std::lock_guard request_guard(ep.requests.lock), recv_guard(ep.receives.lock);
        ep.requests.close();
        ep.receives.close();
        ep.qp = nullptr;
        ep.remote_ops.reset(); // libcoherdma's handle of the QP
    }
    // Without a lock: ibv_destroy_qp waits until the QP's asynchronous events are acknowledged.
    if (const auto attempt = take_attempt(ep))
        retire_qp(ep, *attempt);
    else
        ep.owned_qp.reset();
    // Drops the completions that were flushed meanwhile (suppress_events), before their cookies are
    // reused.
    drain_evd(ep.request_evd);
    drain_evd(ep.recv_evd);
    forget_marker(ep);
    ep.requests.complete_all();
    ep.receives.complete_all();
    if (ep.srq != nullptr)
        ep.ia->qpn_index.remove(qp_num, &ep);
}

} // namespace coherdma::dapl

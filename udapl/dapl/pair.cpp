// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// An endpoint's queue pair.

#include "ep.hpp"
#include "evd.hpp"
#include "extensions/ud.hpp"
#include "ia.hpp"
#include "pz.hpp"
#include "settings.hpp"
#include "srq.hpp"

#include <algorithm>
#include <cerrno>

namespace coherdma::dapl {

namespace {

ibv_cq *queue_of(ep &one, const evd *wanted) noexcept {
    if (wanted != nullptr)
        return wanted->cq.get();
    if (!one.spare)
        one.spare.reset(ibv_create_cq(one.home->verbs(), 1, nullptr, nullptr, 0));
    return one.spare.get();
}

// Receives may be posted from now on. Where connections are made by the kernel (iWARP) they always
// may.
int initialise(ep &one) noexcept {
    const device &on = *one.home->on;
    if (on.iwarp)
        return 0;
    if (extensions::is_datagram(one.attr))
        return extensions::start_datagrams(one);
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = on.port;
    attr.qp_access_flags =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    if (on.limits.atomic_cap != IBV_ATOMIC_NONE)
        attr.qp_access_flags |= IBV_ACCESS_REMOTE_ATOMIC;
    return ibv_modify_qp(one.own.get(), &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

ibv_qp_init_attr wish_of(ep &one) noexcept {
    ibv_qp_init_attr wanted = {};
    wanted.qp_context = &one;
    wanted.send_cq = queue_of(one, one.request_evd);
    wanted.recv_cq = queue_of(one, one.recv_evd);
    wanted.srq = one.shared != nullptr ? one.shared->queue.get() : nullptr;
    wanted.qp_type = extensions::is_datagram(one.attr) ? IBV_QPT_UD : IBV_QPT_RC;
    wanted.cap.max_send_wr = static_cast<std::uint32_t>(std::max(one.attr.max_request_dtos, 1));
    wanted.cap.max_recv_wr =
        one.shared != nullptr ? 0 : static_cast<std::uint32_t>(std::max(one.attr.max_recv_dtos, 1));
    wanted.cap.max_send_sge = static_cast<std::uint32_t>(
        std::max({one.attr.max_request_iov, one.attr.max_rdma_write_iov, 1}));
    wanted.cap.max_recv_sge = static_cast<std::uint32_t>(std::max(one.attr.max_recv_iov, 1));
    wanted.cap.max_inline_data =
        std::max<std::uint32_t>(settings::max_inline(), 8); // atomic writes
    return wanted;
}

/// With atomic writes of its own, where the device has them: requests are posted as ever.
ibv_qp *create(ep &one, ibv_qp_init_attr &wanted) noexcept {
    ibv_pd *const in = one.zone->domain.get();
    if (!one.home->on->atomic_writes || wanted.qp_type != IBV_QPT_RC)
        return ibv_create_qp(in, &wanted);
    ibv_qp_init_attr_ex more = {};
    more.qp_context = wanted.qp_context;
    more.send_cq = wanted.send_cq;
    more.recv_cq = wanted.recv_cq;
    more.srq = wanted.srq;
    more.cap = wanted.cap;
    more.qp_type = wanted.qp_type;
    more.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    more.pd = in;
    more.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_WRITE;
    ibv_qp *const made = ibv_create_qp_ex(one.home->verbs(), &more);
    if (made == nullptr)
        return ibv_create_qp(in, &wanted);
    wanted.cap = more.cap;
    return made;
}

/// The new queue pair becomes the endpoint's.
DAT_RETURN install(ep &one, owned<ibv_qp, ibv_destroy_qp> made, std::uint32_t may_inline) noexcept {
    const holding requests(one.requests.guard), receives(one.receives.guard);
    one.own = std::move(made);
    if (const int error = initialise(one)) {
        one.own.reset();
        return failed_with(error, DAT_RESOURCE_TEP);
    }
    // Who has an SRQ has no room for receives of its own.
    record request = {}, receive = {};
    request.told.ep_handle = receive.told.ep_handle = &one;
    receive.told.operation = static_cast<DAT_DTOS>(one.receive);
    receive.received = 1;
    const DAT_COUNT receives_of_its_own = one.shares ? 0 : one.attr.max_recv_dtos;
    if (!one.requests.make(static_cast<std::uint32_t>(one.attr.max_request_dtos), request) ||
        !one.receives.make(static_cast<std::uint32_t>(receives_of_its_own), receive)) {
        one.own.reset();
        return exhausted(DAT_RESOURCE_MEMORY);
    }
    one.qp = one.own.get();
    one.receives.open(); // and requests by ep::open
    const bool has_segments = std::min({one.request_iov, one.read_iov, one.write_iov}) > 0;
    one.inline_limit = has_segments ? std::min(may_inline, settings::max_inline()) : 0;
    one.at_once = has_segments ? one.longest : 0;
    one.silent.store(false, std::memory_order_relaxed);
    return DAT_SUCCESS;
}

} // namespace

DAT_RETURN make_pair(ep &one) noexcept {
    ibv_qp_init_attr wanted = wish_of(one);
    if (wanted.send_cq == nullptr || wanted.recv_cq == nullptr)
        return failed_with(errno, DAT_RESOURCE_TEVD);
    owned<ibv_qp, ibv_destroy_qp> made(create(one, wanted));
    if (!made && wanted.cap.max_inline_data != 0) {
        wanted = wish_of(one);
        wanted.cap.max_inline_data = 0;
        made.reset(create(one, wanted));
    }
    if (!made)
        return failed_with(errno, DAT_RESOURCE_TEP);
    const DAT_RETURN result = install(one, std::move(made), wanted.cap.max_inline_data);
    if (result != DAT_SUCCESS || one.shared == nullptr)
        return result;
    const holding held(one.home->guard);
    return one.home->by_number.add(one.qp->qp_num, &one) ? DAT_RETURN{DAT_SUCCESS}
                                                         : exhausted(DAT_RESOURCE_MEMORY);
}

namespace {

void gather(evd *from) noexcept {
    if (from == nullptr)
        return;
    const holding held(from->guard);
    from->gather();
}

} // namespace

void end_pair(ep &one) noexcept {
    if (one.qp == nullptr)
        return;
    gather(one.request_evd);
    gather(one.recv_evd);
    const std::uint32_t number = one.qp->qp_num;
    one.silent.store(true, std::memory_order_relaxed);
    {
        const holding requests(one.requests.guard), receives(one.receives.guard);
        one.requests.close();
        one.receives.close();
        one.qp = nullptr;
        one.reach.reset();
    }
    // Not with a lock: it waits until asynchronous events of the pair have been taken.
    one.own.reset();
    // What was flushed meanwhile is told to nobody, but its records are looked at.
    gather(one.request_evd);
    gather(one.recv_evd);
    one.requests.forget();
    one.receives.forget();
    if (one.shared != nullptr) {
        const holding held(one.home->guard);
        one.home->by_number.remove(number, &one);
    }
}

} // namespace coherdma::dapl

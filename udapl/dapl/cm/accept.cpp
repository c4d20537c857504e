// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Accepting a connection request, rejecting it, or handing it off to another PSP.

#include "dapl/api.hpp"
#include "dapl/event/evd.hpp"
#include "dapl/event/upcalls.hpp"
#include "listener.hpp"
#include "ud.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <dat2/dat_ib_extensions.h>
#include <utility>

namespace coherdma::dapl::cm {

dapl_cr::~dapl_cr() {
    delete conn;
}

/// Gives the request to another CR, which has another handle: dat_cr_handoff.
void dapl_cr::move_to(dapl_cr &cr) noexcept {
    cr.conn = std::exchange(conn, nullptr);
    cr.ep = std::exchange(ep, nullptr);
    cr.ep_created = ep_created;
    cr.remote = remote;
}

/// The private data of the reject: code (reject_by_...), then the data of the consumer.
void reject(rdma_cm_id *id, std::uint32_t code, const void *data, std::size_t size) noexcept {
    std::array<unsigned char, sizeof code + max_private_data> private_data;
    const std::uint32_t wire_code = htonl(code);
    std::memcpy(private_data.data(), &wire_code, sizeof wire_code);
    if (size != 0)
        std::memcpy(private_data.data() + sizeof wire_code, data, size);
    rdma_reject(id, private_data.data(), static_cast<std::uint8_t>(sizeof wire_code + size));
}

namespace {

/// Ends the request's use of its EP: destroys an EP that the PSP created for the request, or moves
/// one that the RSP reserved back to UNCONNECTED.
void release_request_ep(dapl_cr &cr) noexcept {
    dapl_ep *const ep = cr.ep;
    if (ep == nullptr)
        return;
    cr.ep = nullptr;
    if (cr.ep_created) { // by the PSP
        auto ref = lookup<dapl_ep>(ep);
        dapl_ia::drop_ref(ep);
        if (!ref) // The IA is being closed, which destroys the EP.
            return;
        const removal_from_ia<dapl_ep> removed(std::move(ref));
        if (removed.obj != nullptr) // else another thread has freed the EP
            destroy_ep(removed.obj);
        return;
    }
    ep->state.store(DAT_EP_STATE_UNCONNECTED, std::memory_order_release);
    dapl_ia::drop_ref(ep);
}

/// Moves the QP to RTS and sends the reply, with the RDMA Read depths that the request and the EP
/// allow. data, size: the private data. 0 or an errno.
int accept_request(dapl_ep &ep, connection &conn, const void *data, DAT_COUNT size) noexcept {
    conn.responder_resources =
        std::min(conn.responder_resources,
                 static_cast<std::uint8_t>(std::min(ep.attr.max_rdma_read_in, 255)));
    conn.initiator_depth = std::min(
        conn.initiator_depth, static_cast<std::uint8_t>(std::min(ep.attr.max_rdma_read_out, 255)));
    if (const int error = qp_to_rts(ep, conn))
        return error;
    rdma_conn_param param = {};
    param.private_data = data;
    param.private_data_len = static_cast<std::uint8_t>(size);
    param.responder_resources = conn.responder_resources;
    param.initiator_depth = conn.initiator_depth;
    param.flow_control = 1;
    param.rnr_retry_count = 7; // no limit
    param.srq = ep.has_srq;
    param.qp_num = ep.qp->qp_num;
    return rdma_accept(conn.id, &param) == 0 ? 0 : errno;
}

/// The EP to accept with: the one that the PSP or RSP gave the request, else the consumer's.
DAT_RETURN find_ep(dapl_cr &cr, DAT_EP_HANDLE ep_handle, call_ref<dapl_ep> &ep) noexcept {
    if (cr.ep != nullptr) {
        if (ep_handle != DAT_HANDLE_NULL && ep_handle != cr.ep)
            return invalid_handle(DAT_INVALID_HANDLE_EP);
        ep = call_ref<dapl_ep>::share(*cr.ep);
        return DAT_SUCCESS;
    }
    ep = cr.ia->find<dapl_ep>(ep_handle);
    const bool datagrams = cr.conn->id->ps == RDMA_PS_UDP;
    return ep && ep->is_ud == datagrams ? DAT_RETURN{DAT_SUCCESS}
                                        : invalid_handle(DAT_INVALID_HANDLE_EP);
}

/// Whether the EP can be connected: its state, PZ, QP and connect EVD. The caller holds the EP's
/// setup_lock.
DAT_RETURN check_accept(const dapl_cr &cr, const dapl_ep &ep) noexcept {
    const DAT_EP_STATE state = ep.current_state();
    const bool is_ready = cr.ep != nullptr ? state == DAT_EP_STATE_PASSIVE_CONNECTION_PENDING ||
                                                 state == DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING
                                           : state == DAT_EP_STATE_UNCONNECTED || ep.is_ud;
    if (!is_ready)
        return invalid_state(state_subtype(state));
    if (ep.pz == nullptr || ep.qp == nullptr || ep.connect_evd == nullptr)
        return invalid_state(DAT_INVALID_STATE_EP_NOTREADY);
    return DAT_SUCCESS;
}

/// Makes the request's connection that of the EP and accepts it. If the peer has gone or the reply
/// cannot be sent, the EP's connection ends with an event. size, data: the private data.
void connect_ep(dapl_cr &cr, dapl_ep &ep, DAT_COUNT size, const void *data) noexcept {
    connection &conn = *std::exchange(cr.conn, nullptr);
    const std::lock_guard guard(ep.lock);
    ep.remote = cr.remote;
    ep.remote_qual = ntohs(cr.remote.port());
    ep.conn = &conn;
    ep.state.store(DAT_EP_STATE_COMPLETION_PENDING, std::memory_order_release);
    conn.state = conn_state::accepting;
    conn.ep.store(&ep, std::memory_order_release);
    // Under the lock: once it is released, another thread may end the connection.
    if (!conn.peer_gone.load(std::memory_order_acquire) &&
        accept_request(ep, conn, data, size) == 0)
        return;
    reject(conn.id, reject_by_provider);
    step_locked(ep, conn, conn_event::failed); // detaches nothing
}

/// Accepts a request that the caller has removed, and destroys it; or inserts it again, if the EP
/// cannot be connected any more.
DAT_RETURN accept(const removal_from_ia<dapl_cr> &removed, dapl_ep &ep, DAT_COUNT size,
                  const void *data) noexcept {
    dapl_cr &cr = *removed.obj;
    const std::lock_guard setup_guard(ep.setup_lock);
    // As in cr_accept: another thread may have connected the EP since.
    DAT_RETURN result = check_accept(cr, ep);
    if (result == DAT_SUCCESS && ep.is_ud)
        result = ud_accept(ep, cr.conn, data, size);
    if (result != DAT_SUCCESS) {
        removed.ia->insert(&cr);
        return result;
    }
    if (!ep.is_ud)
        connect_ep(cr, ep, size, data);
    dapl_ia::drop_ref(std::exchange(cr.ep, nullptr));
    destroy_object(&cr);
    return result;
}

/// Gives a request that the caller has removed a new handle and posts it to the PSP's EVD.
DAT_RETURN hand_off(const removal_from_ia<dapl_cr> &removed, dapl_psp &psp) noexcept {
    dapl_cr &cr = *removed.obj;
    dapl_cr *const new_cr = create_object<dapl_cr>(*removed.ia);
    if (new_cr == nullptr) {
        removed.ia->insert(&cr);
        return no_resources(DAT_RESOURCE_MEMORY);
    }
    cr.move_to(*new_cr);
    if (psp.deliver(new_cr)) {
        destroy_object(&cr);
        return DAT_SUCCESS;
    }
    // The EVD is full: the request keeps its old handle.
    new_cr->move_to(cr);
    destroy_object(new_cr);
    removed.ia->insert(&cr);
    return dat_error(DAT_QUEUE_FULL);
}

} // namespace

void destroy_cr(dapl_cr *cr) noexcept {
    if (cr->conn != nullptr)
        reject(cr->conn->id, reject_by_provider);
    release_request_ep(*cr);
    destroy_object(cr);
}

/// The event was in the queue of an EVD that is destroyed: rejects the connection request that it
/// announces, or destroys the address handle that it has.
void drop_undelivered(const DAT_EVENT &event) noexcept {
    if (static_cast<unsigned>(event.event_number) == DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED)
        return ud_destroy_event_ah(event);
    if (event.event_number != DAT_CONNECTION_REQUEST_EVENT &&
        static_cast<unsigned>(event.event_number) != DAT_IB_UD_CONNECTION_REQUEST_EVENT)
        return;
    auto ref = lookup<dapl_cr>(event.event_data.cr_arrival_event_data.cr_handle);
    if (!ref) // dat_ia_close destroys the request.
        return;
    const removal_from_ia<dapl_cr> removed(std::move(ref));
    if (removed.obj != nullptr) // else another thread has accepted or rejected it
        destroy_cr(removed.obj);
}

} // namespace coherdma::dapl::cm

namespace coherdma::dapl {

using cm::connection;
using cm::dapl_cr;

DAT_RETURN cr_query(DAT_CR_HANDLE cr_handle, DAT_CR_PARAM_MASK mask, DAT_CR_PARAM *param) noexcept {
    return query_object<dapl_cr>(cr_handle, mask, DAT_CR_FIELD_ALL, param, [param](dapl_cr &cr) {
        param->remote_ia_address_ptr = &cr.remote.sa;
        param->remote_port_qual = ntohs(cr.remote.port());
        // The provider's own header precedes the consumer's data.
        const std::size_t header_len = cm::ud_header_size(*cr.conn);
        param->private_data_size = static_cast<DAT_COUNT>(cr.conn->peer_data_len - header_len);
        param->private_data =
            param->private_data_size != 0 ? cr.conn->peer_data.data() + header_len : nullptr;
        param->local_ep_handle = cr.ep;
    });
}

DAT_RETURN cr_accept(DAT_CR_HANDLE cr_handle, DAT_EP_HANDLE ep_handle, DAT_COUNT size,
                     const DAT_PVOID data) noexcept {
    auto cr = handle_to<dapl_cr>(cr_handle);
    if (!cr)
        return invalid_handle(DAT_INVALID_HANDLE_CR);
    call_ref<dapl_ep> ep;
    DAT_RETURN result = cm::find_ep(*cr, ep_handle, ep);
    if (result != DAT_SUCCESS)
        return result;
    if (size < 0 || size > max_private_data)
        return invalid_parameter(3);
    if (size > 0 && data == nullptr)
        return invalid_parameter(4);
    {
        const std::lock_guard setup_guard(ep->setup_lock);
        result = cm::check_accept(*cr, *ep);
    }
    if (result != DAT_SUCCESS)
        return result;
    // Without the setup_lock: removal_from_ia waits for other calls with the request, which take
    // it.
    const removal_from_ia<dapl_cr> removed(std::move(cr));
    if (removed.obj == nullptr) // another thread has removed it
        return invalid_handle(DAT_INVALID_HANDLE_CR);
    return cm::accept(removed, *ep, size, data);
}

DAT_RETURN cr_reject(DAT_CR_HANDLE cr_handle, DAT_COUNT size, const DAT_PVOID data) noexcept {
    auto cr = handle_to<dapl_cr>(cr_handle);
    if (!cr)
        return invalid_handle(DAT_INVALID_HANDLE_CR);
    if (size < 0 || size > max_private_data)
        return invalid_parameter(2);
    if (size > 0 && data == nullptr)
        return invalid_parameter(3);
    const removal_from_ia<dapl_cr> removed(std::move(cr));
    if (removed.obj == nullptr) // another thread has removed it
        return invalid_handle(DAT_INVALID_HANDLE_CR);
    cm::reject(removed.obj->conn->id, cm::reject_by_consumer, data, static_cast<std::size_t>(size));
    cm::release_request_ep(*removed.obj);
    destroy_object(removed.obj);
    return DAT_SUCCESS;
}

namespace {

/// The PSP of the IA with this qualifier.
call_ref<cm::dapl_psp> find_psp(dapl_ia &ia, DAT_CONN_QUAL qualifier) noexcept {
    const std::lock_guard guard(objects_lock);
    auto *psp = ia.first<cm::dapl_psp>();
    while (psp != nullptr && psp->qualifier != qualifier)
        psp = static_cast<cm::dapl_psp *>(psp->next);
    return psp != nullptr ? call_ref<cm::dapl_psp>(psp) : call_ref<cm::dapl_psp>();
}

} // namespace

/// Gives the request to the PSP with this qualifier.
DAT_RETURN cr_handoff(DAT_CR_HANDLE cr_handle, DAT_CONN_QUAL qualifier) noexcept {
    auto cr = handle_to<dapl_cr>(cr_handle);
    if (!cr)
        return invalid_handle(DAT_INVALID_HANDLE_CR);
    const auto psp = find_psp(*cr->ia, qualifier);
    if (!psp)
        return invalid_parameter(2);
    const removal_from_ia<dapl_cr> removed(std::move(cr));
    if (removed.obj == nullptr) // another thread has removed it
        return invalid_handle(DAT_INVALID_HANDLE_CR);
    return cm::hand_off(removed, *psp);
}

} // namespace coherdma::dapl

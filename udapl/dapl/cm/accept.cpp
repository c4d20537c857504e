// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Accepting a connection request, rejecting it, or handing it off to another PSP.

#include "dapl/api.hpp"
#include "dapl/event/evd.hpp"
#include "listener.hpp"
#include "ud.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <utility>

namespace coherdma::dapl::cm {

dapl_cr::~dapl_cr() {
    delete conn;
}

void reject(rdma_cm_id *id, std::uint32_t code, const void *data, std::size_t size) noexcept {
    std::array<unsigned char, sizeof code + max_private_data> private_data;
    const std::uint32_t wire_code = htonl(code);
    std::memcpy(private_data.data(), &wire_code, sizeof wire_code);
    if (size != 0)
        std::memcpy(private_data.data() + sizeof wire_code, data, size);
    rdma_reject(id, private_data.data(), static_cast<std::uint8_t>(sizeof wire_code + size));
}

namespace {

/// Destroys the EP that the PSP created for the request, or frees the one that the RSP reserved.
void release_ep(dapl_cr &cr) noexcept {
    dapl_ep *const ep = cr.ep;
    if (ep == nullptr)
        return;
    cr.ep = nullptr;
    if (cr.ep_created) {
        bool in_use;
        ep->ia->put(ep);
        if (ep->ia->remove(ep, in_use))
            destroy_ep(ep);
        return;
    }
    ep->state.store(DAT_EP_STATE_UNCONNECTED, std::memory_order_release);
    ep->ia->put(ep);
}

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
    param.rnr_retry_count = 7;
    param.srq = ep.has_srq;
    param.qp_num = ep.qp->qp_num;
    return rdma_accept(conn.id, &param) == 0 ? 0 : errno;
}

/// The EP to accept with: the consumer's or the request's own. Takes a reference unless it is the
/// request's own.
DAT_RETURN get_ep(dapl_cr &cr, DAT_EP_HANDLE ep_handle, dapl_ep *&ep) noexcept {
    if (cr.ep != nullptr) {
        if (ep_handle != DAT_HANDLE_NULL && ep_handle != cr.ep)
            return invalid_handle(DAT_INVALID_HANDLE_EP);
        ep = cr.ep;
        const DAT_EP_STATE state = ep->current_state();
        if (state != DAT_EP_STATE_PASSIVE_CONNECTION_PENDING &&
            state != DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING)
            return invalid_state(state_subtype(state));
        return DAT_SUCCESS;
    }
    ep = cr.ia->get<dapl_ep>(ep_handle);
    if (ep == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    const DAT_EP_STATE state = ep->current_state();
    const bool datagrams = cr.conn->id->ps == RDMA_PS_UDP;
    if (datagrams != is_ud(ep->attr)) {
        cr.ia->put(ep);
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    }
    if (state != DAT_EP_STATE_UNCONNECTED && !datagrams) {
        cr.ia->put(ep);
        return invalid_state(state_subtype(state));
    }
    return DAT_SUCCESS;
}

/// Gives the request a new handle and posts it to the PSP's EVD. The old handle becomes invalid.
DAT_RETURN hand_off(dapl_cr &cr, dapl_sp &sp) noexcept {
    dapl_ia &ia = *cr.ia;
    dapl_cr *const new_cr = create_object<dapl_cr>(ia);
    if (new_cr == nullptr)
        return no_resources(DAT_RESOURCE_MEMORY);
    bool in_use;
    if (!ia.remove(&cr, in_use)) {
        destroy_object(new_cr);
        return invalid_handle(DAT_INVALID_HANDLE_CR);
    }
    new_cr->conn = std::exchange(cr.conn, nullptr);
    new_cr->ep = std::exchange(cr.ep, nullptr);
    new_cr->ep_created = cr.ep_created;
    new_cr->remote = cr.remote;
    ia.insert(new_cr);
    if (sp.post_cr_event(*new_cr)) {
        destroy_object(&cr);
        return DAT_SUCCESS;
    }
    // The EVD is full: the request keeps its old handle.
    ia.remove(new_cr, in_use);
    cr.conn = std::exchange(new_cr->conn, nullptr);
    cr.ep = std::exchange(new_cr->ep, nullptr);
    destroy_object(new_cr);
    ia.insert(&cr);
    return dat_error(DAT_QUEUE_FULL);
}

} // namespace

void destroy_cr(dapl_cr *cr) noexcept {
    if (cr->conn != nullptr)
        reject(cr->conn->id, reject_by_provider);
    release_ep(*cr);
    destroy_object(cr);
}

} // namespace coherdma::dapl::cm

namespace coherdma::dapl {

using cm::connection;
using cm::dapl_cr;

DAT_RETURN cr_query(DAT_CR_HANDLE cr_handle, DAT_CR_PARAM_MASK mask, DAT_CR_PARAM *param) noexcept {
    return query_object<dapl_cr>(cr_handle, mask, DAT_CR_FIELD_ALL, param, [param](dapl_cr &cr) {
        param->remote_ia_address_ptr = &cr.remote.sa;
        param->remote_port_qual = ntohs(cr.remote.port());
        const std::size_t header_len = cm::ud_header_size(*cr.conn);
        param->private_data_size = static_cast<DAT_COUNT>(cr.conn->peer_data_len - header_len);
        param->private_data =
            param->private_data_size != 0 ? cr.conn->peer_data.data() + header_len : nullptr;
        param->local_ep_handle = cr.ep;
    });
}

DAT_RETURN cr_accept(DAT_CR_HANDLE cr_handle, DAT_EP_HANDLE ep_handle, DAT_COUNT size,
                     const DAT_PVOID data) noexcept {
    dapl_cr *const cr = handle_to<dapl_cr>(cr_handle);
    if (cr == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_CR);
    if (size < 0 || size > max_private_data)
        return invalid_parameter(3);
    if (size > 0 && data == nullptr)
        return invalid_parameter(4);
    dapl_ep *ep = nullptr;
    DAT_RETURN result = cm::get_ep(*cr, ep_handle, ep);
    if (result != DAT_SUCCESS)
        return result;
    dapl_ia &ia = *cr->ia;
    if (ep->pz == nullptr || ep->qp == nullptr || ep->connect_evd == nullptr) {
        if (cr->ep == nullptr)
            ia.put(ep);
        return invalid_state(DAT_INVALID_STATE_EP_NOTREADY);
    }
    bool in_use;
    if (!ia.remove(cr, in_use)) {
        if (cr->ep == nullptr)
            ia.put(ep);
        return invalid_handle(DAT_INVALID_HANDLE_CR);
    }
    ia.count(DCNT_IA_SP_CR_ACCEPTED);
    ia.count(DCNT_IA_CM_REP_TX);
    // data may point into the request's private data: destroy the CR last.
    connection &conn = *cr->conn;
    if (is_ud(ep->attr)) {
        cr->conn = nullptr;
        result = cm::ud_accept(*ep, &conn, data, size);
        ia.put(ep);
        destroy_object(cr);
        return result;
    }
    bool failed;
    {
        const std::lock_guard guard(ep->lock);
        ep->remote = cr->remote;
        ep->remote_qual = ntohs(cr->remote.port());
        ep->conn = &conn;
        ep->state.store(DAT_EP_STATE_COMPLETION_PENDING, std::memory_order_release);
        conn.ep.store(ep, std::memory_order_release);
        // Under the lock: once it is released, another thread may end the connection.
        failed = conn.peer_gone.load(std::memory_order_acquire) ||
                 cm::accept_request(*ep, conn, data, size) != 0;
    }
    cr->conn = nullptr;
    cr->ep = nullptr;
    if (failed)
        cm::terminate_conn(*ep, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
    ia.put(ep); // the request's reference; from now on the EP's state keeps it from being freed
    destroy_object(cr);
    return DAT_SUCCESS;
}

DAT_RETURN cr_reject(DAT_CR_HANDLE cr_handle, DAT_COUNT size, const DAT_PVOID data) noexcept {
    dapl_cr *const cr = handle_to<dapl_cr>(cr_handle);
    if (cr == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_CR);
    if (size < 0 || size > max_private_data)
        return invalid_parameter(2);
    if (size > 0 && data == nullptr)
        return invalid_parameter(3);
    bool in_use;
    if (!cr->ia->remove(cr, in_use))
        return invalid_handle(DAT_INVALID_HANDLE_CR);
    cr->ia->count(DCNT_IA_SP_CR_REJECTED);
    cr->ia->count(DCNT_IA_CM_USER_REJ_TX);
    cm::reject(cr->conn->id, cm::reject_by_consumer, data, static_cast<std::size_t>(size));
    cm::release_ep(*cr);
    destroy_object(cr);
    return DAT_SUCCESS;
}

DAT_RETURN cr_handoff(DAT_CR_HANDLE cr_handle, DAT_CONN_QUAL qualifier) noexcept {
    dapl_cr *const cr = handle_to<dapl_cr>(cr_handle);
    if (cr == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_CR);
    cm::dapl_psp *psp = nullptr;
    {
        const std::lock_guard guard(cr->ia->lock);
        for (psp = cr->ia->first_locked<cm::dapl_psp>();
             psp != nullptr && psp->qualifier != qualifier;)
            psp = static_cast<cm::dapl_psp *>(psp->next);
        if (psp != nullptr)
            ++psp->refs;
    }
    if (psp == nullptr)
        return invalid_parameter(2);
    const DAT_RETURN result = cm::hand_off(*cr, *psp);
    cr->ia->put(psp);
    return result;
}

} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "listener.hpp"

#include "dapl/api.hpp"
#include "dapl/core/fork_guard.hpp"
#include "dapl/core/instance.hpp"
#include "dapl/event/evd.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <dat2/dat_ib_extensions.h>
#include <memory>
#include <new>
#include <utility>

namespace coherdma::dapl::cm {

namespace {

constexpr int backlog = 1024;

void save_request_param(connection &conn, const rdma_conn_param &param) noexcept {
    conn.peer_data_len = param.private_data != nullptr ? param.private_data_len : std::uint8_t{0};
    if (conn.peer_data_len != 0)
        std::memcpy(conn.peer_data.data(), param.private_data, conn.peer_data_len);
    conn.responder_resources = param.responder_resources;
    conn.initiator_depth = param.initiator_depth;
}

rdma_conn_param to_conn_param(const rdma_ud_param &ud_param) noexcept {
    rdma_conn_param param = {};
    param.private_data = ud_param.private_data;
    param.private_data_len = ud_param.private_data_len;
    return param;
}

void reject_and_destroy(rdma_cm_id *id) noexcept {
    reject(id, reject_by_provider);
    // Does not block: the event being handled belongs to the listening id.
    destroy_id(id);
}

} // namespace

/// In the event thread: a peer requests a connection at a listening id. Makes a CR of the request.
void dapl_sp::handle_event(rdma_cm_event &event) noexcept {
    if (event.event != RDMA_CM_EVENT_CONNECT_REQUEST)
        return;
    rdma_cm_id *const id = event.id;
    const bool is_ud = id->ps == RDMA_PS_UDP;
    dapl_ep *ep = nullptr;
    // A service point that is not published is being created or freed.
    const bool is_listening = is_published(this) && ia->dev->is_device_of(*id);
    std::unique_ptr<connection> conn(is_listening ? new (std::nothrow) connection : nullptr);
    dapl_cr *const cr = conn ? create_object<dapl_cr>(*ia) : nullptr;
    // provide_ep last: its EP cannot be given back.
    if (cr == nullptr || (provide_ep != nullptr && !provide_ep(*this, is_ud, ep))) {
        if (cr != nullptr)
            destroy_object(cr);
        id->context = nullptr;
        return reject_and_destroy(id);
    }
    cr->conn = conn.release();
    cr->conn->id = id;
    id->context = static_cast<cm_handler *>(cr->conn);
    // For a datagram request the private data are in event.param.ud.
    save_request_param(*cr->conn, is_ud ? to_conn_param(event.param.ud) : event.param.conn);
    cr->remote = to_address(rdma_get_peer_addr(id));
    cr->ep = ep;
    cr->ep_created = ep != nullptr && ep->current_state() == DAT_EP_STATE_UNCONFIGURED_TENTATIVE;
    if (!deliver(cr))
        destroy_cr(cr); // rejects it
}

/// Adds the request to the IA and posts its event. False: the EVD is full, and the request is the
/// caller's again.
bool dapl_sp::deliver(dapl_cr *cr) noexcept {
    ia->insert(cr);
    auto ref = lookup<dapl_cr>(cr);
    if (!ref) // The IA is being closed, which destroys the request.
        return true;
    DAT_EVENT event = {};
    event.event_number = DAT_CONNECTION_REQUEST_EVENT;
    if (cr->conn->id->ps == RDMA_PS_UDP)
        event.event_number = static_cast<DAT_EVENT_NUMBER>(DAT_IB_UD_CONNECTION_REQUEST_EVENT);
    auto &data = event.event_data.cr_arrival_event_data;
    data.sp_handle.psp_handle = this;
    const address local = to_address(rdma_get_local_addr(cr->conn->id));
    data.local_ia_address_ptr = const_cast<sockaddr *>(&ia->dev->find_local_address(local).sa);
    data.conn_qual = qualifier;
    data.cr_handle = cr;
    data.truncate_flag = DAT_FALSE;
    if (cr_evd->post(event))
        return true;
    const removal_from_ia<dapl_cr> removed(std::move(ref));
    return removed.obj == nullptr; // another thread has already destroyed it
}

namespace {

/// dapl_sp::provide_ep of a PSP with DAT_PSP_PROVIDER_FLAG: an unconfigured EP, which the consumer
/// modifies before it accepts.
bool create_tentative_ep(dapl_sp &sp, bool is_ud, dapl_ep *&ep) noexcept {
    dapl_ia &ia = *sp.ia;
    if (is_ud || create_ep_object(ia, {}, default_ep_attr(ia), ep) != DAT_SUCCESS)
        return false;
    ep->state.store(DAT_EP_STATE_UNCONFIGURED_TENTATIVE, std::memory_order_release);
    ep->refs = 1; // the request
    ia.insert(ep);
    return true;
}

/// dapl_sp::provide_ep of an RSP: its EP goes to the first request.
bool take_reserved_ep(dapl_sp &sp, bool is_ud, dapl_ep *&ep) noexcept {
    auto &rsp = static_cast<dapl_rsp &>(sp);
    if (rsp.ep_is_ud != is_ud)
        return false;
    ep = rsp.reserved_ep.exchange(nullptr);
    if (ep == nullptr)
        return false;
    ep->state.store(DAT_EP_STATE_PASSIVE_CONNECTION_PENDING, std::memory_order_release);
    return true;
}

/// Reserves the EP for the RSP, which gets a reference.
DAT_RETURN reserve_ep(dapl_rsp &rsp, dapl_ep &ep) noexcept {
    const std::lock_guard setup_guard(ep.setup_lock);
    DAT_EP_STATE state = DAT_EP_STATE_UNCONNECTED;
    if (!ep.state.compare_exchange_strong(state, DAT_EP_STATE_RESERVED))
        return invalid_state(state_subtype(state));
    // Only now: the EP may have been one that a PSP created for a request, and dat_cr_reject could
    // not destroy it while it has a reference.
    if (rsp.ia->find_and_add_ref<dapl_ep>(&ep) == nullptr) {
        ep.state.store(DAT_EP_STATE_UNCONNECTED, std::memory_order_release);
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    }
    rsp.reserved_ep.store(&ep);
    return DAT_SUCCESS;
}

/// Undoes reserve_ep.
void release_reserved_ep(dapl_ep &ep) noexcept {
    ep.state.store(DAT_EP_STATE_UNCONNECTED, std::memory_order_release);
    dapl_ia::drop_ref(&ep);
}

/// Listens at one address. port: 0 is replaced by the one that rdma_cm chooses. 0 or an errno.
int listen_at(dapl_sp &sp, rdma_port_space space, address addr, std::uint16_t &port) noexcept try {
    addr.port() = htons(port);
    rdma_cm_id *id = nullptr;
    if (const int error = create_id(sp.handler, space, id))
        return error;
    unique_handle<rdma_cm_id, destroy_id> id_owner(id);
    if (addr.sa.sa_family == AF_INET6) {
        int af_only = 1;
        rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &af_only, sizeof af_only);
    }
    const fork_guard guard;
    if (rdma_bind_addr(id, &addr.sa) != 0 || rdma_listen(id, backlog) != 0)
        return errno;
    port = ntohs(rdma_get_src_port(id));
    sp.ids.push_back(std::move(id_owner));
    return 0;
} catch (const std::bad_alloc &) {
    return ENOMEM;
}

/// Listens at each address that the IA has now, for connections and datagrams, with the same port.
/// 0 or an errno.
int listen_on_all(dapl_sp &sp, std::uint16_t &port) noexcept {
    device &dev = *sp.ia->dev;
    if (const int error = dev.update_addresses())
        return error;
    for (const rdma_port_space space : {RDMA_PS_TCP, RDMA_PS_UDP}) {
        if (space == RDMA_PS_UDP && !dev.has_ud())
            break;
        for (const address *addr = dev.addresses; addr->sa.sa_family != AF_UNSPEC; ++addr)
            // EADDRNOTAVAIL: it has just gone.
            if (const int error = listen_at(sp, space, *addr, port);
                error != 0 && error != EADDRNOTAVAIL)
                return error;
    }
    return sp.ids.empty() ? EADDRNOTAVAIL : 0;
}

/// On siw the kernel's TCP may already use the port that rdma_cm chooses; then retries.
int listen_on_any_port(dapl_sp &sp, std::uint16_t &port) noexcept {
    constexpr int max_tries = 8;
    int error = EADDRINUSE;
    for (int tries = 0; error == EADDRINUSE && tries != max_tries; ++tries) {
        sp.ids.clear();
        port = 0;
        error = listen_on_all(sp, port);
    }
    return error;
}

/// qualifier: 0 is replaced by one that is free.
DAT_RETURN listen(dapl_sp &sp, DAT_CONN_QUAL &qualifier) noexcept {
    std::uint16_t port = conn_qual_to_port(qualifier);
    const int error = port == 0 ? listen_on_any_port(sp, port) : listen_on_all(sp, port);
    if (error != 0)
        return from_errno(error, DAT_RESOURCE_TEP);
    if (qualifier == 0)
        qualifier = port;
    return DAT_SUCCESS;
}

/// Destroys a service point and drops the reference to its EVD.
template <class sp_type>
void destroy_listener(sp_type *obj) noexcept {
    dapl_evd *const cr_evd = obj->cr_evd;
    destroy_object(obj);
    dapl_ia::drop_ref(cr_evd);
}

/// Creates a service point. qualifier: 0 is replaced by one that is free. flags_check: the result
/// for an argument that follows the EVD, to be returned unless an earlier one is wrong. handle is
/// the fifth argument. fill(obj) sets the fields that only this type has.
template <class sp_type, class filling>
DAT_RETURN create_sp(dapl_ia &ia, DAT_CONN_QUAL &qualifier, DAT_EVD_HANDLE evd_handle,
                     DAT_RETURN flags_check, DAT_HANDLE *handle, filling &&fill) noexcept {
    dapl_evd *const cr_evd =
        require_stream(ia.find_and_add_ref<dapl_evd>(evd_handle), DAT_EVD_CR_FLAG);
    if (cr_evd == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_EVD_CR);
    DAT_RETURN result = flags_check;
    if (result == DAT_SUCCESS && handle == nullptr)
        result = invalid_parameter(5);
    sp_type *const obj = result == DAT_SUCCESS ? create_object<sp_type>(ia) : nullptr;
    if (obj == nullptr) {
        ia.drop_ref(cr_evd);
        return result != DAT_SUCCESS ? result : no_resources(DAT_RESOURCE_MEMORY);
    }
    obj->cr_evd = cr_evd;
    result = fill(*obj);
    if (result == DAT_SUCCESS)
        result = listen(*obj, qualifier);
    if (result != DAT_SUCCESS) {
        destroy_listener(obj);
        return result;
    }
    obj->set_qualifier(qualifier);
    *handle = obj;
    ia.insert(obj);
    return DAT_SUCCESS;
}

DAT_RETURN create_psp(dapl_ia &ia, DAT_CONN_QUAL &qualifier, DAT_EVD_HANDLE evd_handle,
                      DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *psp_handle) noexcept {
    const bool is_valid = flags == DAT_PSP_CONSUMER_FLAG || flags == DAT_PSP_PROVIDER_FLAG;
    return create_sp<dapl_psp>(ia, qualifier, evd_handle,
                               is_valid ? DAT_RETURN{DAT_SUCCESS} : invalid_parameter(4),
                               psp_handle, [flags](dapl_psp &psp) {
                                   psp.flags = flags;
                                   if (flags == DAT_PSP_PROVIDER_FLAG)
                                       psp.provide_ep = create_tentative_ep;
                                   return DAT_RETURN{DAT_SUCCESS};
                               });
}

} // namespace

void destroy_psp(dapl_psp *psp) noexcept {
    destroy_listener(psp);
}

void destroy_csp(dapl_csp *csp) noexcept {
    destroy_listener(csp);
}

void destroy_rsp(dapl_rsp *rsp) noexcept {
    rsp->ids.clear();
    if (dapl_ep *const ep = rsp->reserved_ep.exchange(nullptr)) // No request has arrived.
        release_reserved_ep(*ep);
    destroy_listener(rsp);
}

} // namespace coherdma::dapl::cm

namespace coherdma::dapl {

using cm::dapl_csp;
using cm::dapl_psp;
using cm::dapl_rsp;

DAT_RETURN psp_create(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL qualifier, DAT_EVD_HANDLE evd_handle,
                      DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *psp_handle) noexcept {
    const auto ia = handle_to<dapl_ia>(ia_handle);
    if (!ia)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    if (cm::conn_qual_to_port(qualifier) == 0)
        return invalid_parameter(2);
    return cm::create_psp(*ia, qualifier, evd_handle, flags, psp_handle);
}

DAT_RETURN psp_create_any(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL *qualifier,
                          DAT_EVD_HANDLE evd_handle, DAT_PSP_FLAGS flags,
                          DAT_PSP_HANDLE *psp_handle) noexcept {
    const auto ia = handle_to<dapl_ia>(ia_handle);
    if (!ia)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    if (qualifier == nullptr)
        return invalid_parameter(2);
    DAT_CONN_QUAL chosen = 0;
    const DAT_RETURN result = cm::create_psp(*ia, chosen, evd_handle, flags, psp_handle);
    if (result != DAT_SUCCESS)
        return result;
    *qualifier = chosen;
    return DAT_SUCCESS;
}

DAT_RETURN psp_query(DAT_PSP_HANDLE psp_handle, DAT_PSP_PARAM_MASK mask,
                     DAT_PSP_PARAM *param) noexcept {
    return query_object<dapl_psp>(psp_handle, mask, DAT_PSP_FIELD_ALL, param,
                                  [param](const dapl_psp &psp) {
                                      param->conn_qual = psp.qualifier;
                                      param->evd_handle = psp.cr_evd;
                                      param->psp_flags = psp.flags;
                                  });
}

DAT_RETURN psp_free(DAT_PSP_HANDLE psp_handle) noexcept {
    return free_object(handle_to<dapl_psp>(psp_handle), DAT_NO_SUBTYPE, cm::destroy_psp);
}

DAT_RETURN rsp_create(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL qualifier, DAT_EP_HANDLE ep_handle,
                      DAT_EVD_HANDLE evd_handle, DAT_RSP_HANDLE *rsp_handle) noexcept {
    const auto ia = handle_to<dapl_ia>(ia_handle);
    if (!ia)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    if (cm::conn_qual_to_port(qualifier) == 0)
        return invalid_parameter(2);
    const auto ep = ia->find<dapl_ep>(ep_handle);
    if (!ep)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    bool reserved = false;
    const DAT_RETURN result = cm::create_sp<dapl_rsp>(
        *ia, qualifier, evd_handle, DAT_SUCCESS, rsp_handle, [&ep, &reserved](dapl_rsp &rsp) {
            rsp.ep_is_ud = ep->is_ud;
            rsp.provide_ep = cm::take_reserved_ep;
            const DAT_RETURN reserve_result = cm::reserve_ep(rsp, *ep);
            reserved = reserve_result == DAT_SUCCESS;
            return reserve_result;
        });
    if (result != DAT_SUCCESS && reserved)
        cm::release_reserved_ep(*ep);
    return result;
}

DAT_RETURN rsp_query(DAT_RSP_HANDLE rsp_handle, DAT_RSP_PARAM_MASK mask,
                     DAT_RSP_PARAM *param) noexcept {
    return query_object<dapl_rsp>(rsp_handle, mask, DAT_RSP_FIELD_ALL, param,
                                  [param](const dapl_rsp &rsp) {
                                      param->conn_qual = rsp.qualifier;
                                      param->evd_handle = rsp.cr_evd;
                                      param->ep_handle = rsp.reserved_ep.load();
                                  });
}

DAT_RETURN rsp_free(DAT_RSP_HANDLE rsp_handle) noexcept {
    return free_object(handle_to<dapl_rsp>(rsp_handle), DAT_NO_SUBTYPE, cm::destroy_rsp);
}

DAT_RETURN csp_create(DAT_IA_HANDLE ia_handle, DAT_COMM *comm, DAT_IA_ADDRESS_PTR sa,
                      DAT_EVD_HANDLE evd_handle, DAT_CSP_HANDLE *csp_handle) noexcept {
    const auto ia = handle_to<dapl_ia>(ia_handle);
    if (!ia)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    if (comm == nullptr)
        return invalid_parameter(2);
    const bool is_valid = (comm->domain == AF_INET || comm->domain == AF_INET6) &&
                          comm->type == SOCK_STREAM &&
                          (comm->protocol == 0 || comm->protocol == IPPROTO_TCP);
    if (!is_valid)
        return dat_error(DAT_COMM_NOT_SUPPORTED);
    if (!address::is_ip(sa))
        return invalid_parameter(3);
    address addr = to_address(sa);
    DAT_CONN_QUAL port = ntohs(addr.port());
    const DAT_RETURN result = cm::create_sp<dapl_csp>(*ia, port, evd_handle, DAT_SUCCESS,
                                                      csp_handle, [comm, &addr](dapl_csp &csp) {
                                                          csp.comm = *comm;
                                                          csp.addr = addr;
                                                          return DAT_RETURN{DAT_SUCCESS};
                                                      });
    return result == dat_error(DAT_CONN_QUAL_IN_USE) ? dat_error(DAT_PORT_IN_USE) : result;
}

DAT_RETURN csp_query(DAT_CSP_HANDLE csp_handle, DAT_CSP_PARAM_MASK mask,
                     DAT_CSP_PARAM *param) noexcept {
    return query_object<dapl_csp>(csp_handle, mask, DAT_CSP_FIELD_ALL, param,
                                  [param](dapl_csp &csp) {
                                      param->comm = &csp.comm;
                                      param->address_ptr = &csp.addr.sa;
                                      param->evd_handle = csp.cr_evd;
                                  });
}

DAT_RETURN csp_free(DAT_CSP_HANDLE csp_handle) noexcept {
    return free_object(handle_to<dapl_csp>(csp_handle), DAT_NO_SUBTYPE, cm::destroy_csp);
}

} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "listener.hpp"

#include "../api.hpp"
#include "../evd.hpp"
#include "../instance.hpp"
#include "extensions/ud.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <dat2/dat_ib_extensions.h>
#include <memory>
#include <utility>

namespace coherdma::dapl::cm {

listener::~listener() {
    stop();
}

void listener::stop() noexcept {
    for (rdma_cm_id *&each : ids)
        if (rdma_cm_id *const one = std::exchange(each, nullptr); one != nullptr)
            rdma_destroy_id(one);
}

namespace {

constexpr int backlog = 1024;

address name_of(const sockaddr *from) noexcept {
    address to = {};
    std::memcpy(&to, from, from->sa_family == AF_INET6 ? sizeof to.v6 : sizeof to.v4);
    return to;
}

void keep_data(connection &link, const rdma_conn_param &from) noexcept {
    link.received = from.private_data != nullptr ? from.private_data_len : std::uint8_t{0};
    if (link.received != 0)
        std::memcpy(link.peers.data(), from.private_data, link.received);
    link.responder = from.responder_resources;
    link.initiator = from.initiator_depth;
}

rdma_conn_param conn_of(const rdma_ud_param &from) noexcept {
    rdma_conn_param to = {};
    to.private_data = from.private_data;
    to.private_data_len = from.private_data_len;
    return to;
}

void dismiss(rdma_cm_id *id) noexcept {
    refuse(id, by_system);
    // Its own events were none so far; what is being handled is the listener's.
    rdma_destroy_id(id);
}

/// Which of the IA's addresses the peer called; its memory lives as long as the IA.
const address *called(const ia &on, rdma_cm_id *id) noexcept {
    const address local = name_of(rdma_get_local_addr(id));
    for (std::size_t at = 0; at != on.on->count; ++at) {
        const address &each = on.on->addresses.at(at);
        if (each.any.sa_family != local.any.sa_family)
            continue;
        if (local.any.sa_family == AF_INET
                ? each.v4.sin_addr.s_addr == local.v4.sin_addr.s_addr
                : std::memcmp(&each.v6.sin6_addr, &local.v6.sin6_addr, sizeof(in6_addr)) == 0)
            return &each;
    }
    return &on.on->addresses[0];
}

} // namespace

void listener::heard(rdma_cm_event &event) noexcept {
    if (event.event != RDMA_CM_EVENT_CONNECT_REQUEST)
        return;
    rdma_cm_id *const id = event.id;
    ep *one = nullptr;
    if (id->verbs != home->verbs() || (endpoint != nullptr && !endpoint(*this, one))) {
        id->context = nullptr;
        return dismiss(id);
    }
    request *const made = prepare<request>(*home);
    if (made == nullptr) {
        id->context = nullptr;
        return dismiss(id);
    }
    made->link = new connection;
    made->link->id = id;
    id->context = static_cast<party *>(made->link);
    // The words of a datagram's request are elsewhere in the event.
    keep_data(*made->link, id->ps == RDMA_PS_UDP ? conn_of(event.param.ud) : event.param.conn);
    made->remote = name_of(rdma_get_peer_addr(id));
    made->for_one = one;
    made->made = one != nullptr && one->now() == DAT_EP_STATE_UNCONFIGURED_TENTATIVE;
    home->adopt(made);
    bool in_use;
    // Not the program says no here, so the peer is told as by a system.
    if (!announce(*made) && home->disown(made, in_use))
        end_request(made);
}

bool listener::announce(request &one) noexcept {
    DAT_EVENT event = {};
    event.event_number = DAT_CONNECTION_REQUEST_EVENT;
    if (one.link->id->ps == RDMA_PS_UDP)
        event.event_number = static_cast<DAT_EVENT_NUMBER>(DAT_IB_UD_CONNECTION_REQUEST_EVENT);
    auto &data = event.event_data.cr_arrival_event_data;
    data.sp_handle.psp_handle = this;
    data.local_ia_address_ptr = const_cast<sockaddr *>(&called(*home, one.link->id)->any);
    data.conn_qual = qualifier;
    data.cr_handle = &one;
    data.truncate_flag = DAT_FALSE;
    return requests->post(event);
}

namespace {

// The program asked for endpoints: one that it has yet to tell what it needs.
bool made_for_it(listener &by, ep *&one) noexcept {
    ia &on = *by.home;
    if (make_ep(on, nullptr, nullptr, nullptr, nullptr, nullptr, default_attributes(on), one) !=
        DAT_SUCCESS)
        return false;
    one->state.store(DAT_EP_STATE_UNCONFIGURED_TENTATIVE, std::memory_order_release);
    ++one->users; // the request's
    on.adopt(one);
    return true;
}

bool the_reserved(listener &by, ep *&one) noexcept {
    one = static_cast<rsp &>(by).reserved.exchange(nullptr);
    if (one == nullptr)
        return false;
    one->state.store(DAT_EP_STATE_PASSIVE_CONNECTION_PENDING, std::memory_order_release);
    return true;
}

/// Listens at one address. port: in and out.
int listen_at(listener &by, rdma_cm_id *&id, rdma_port_space space, address at,
              std::uint16_t &port) noexcept {
    at.port() = htons(port);
    if (rdma_create_id(events::channel(), &id, static_cast<party *>(&by.hears), space) != 0)
        return errno;
    if (at.any.sa_family == AF_INET6) {
        int only = 1;
        rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only, sizeof only);
    }
    if (rdma_bind_addr(id, &at.any) != 0 || rdma_listen(id, backlog) != 0) {
        const int error = errno;
        rdma_destroy_id(id);
        id = nullptr;
        return error;
    }
    port = ntohs(rdma_get_src_port(id));
    return 0;
}

int listen(listener &by, std::uint16_t &port) noexcept {
    const device &on = *by.home->on;
    if (on.count == 0)
        return EADDRNOTAVAIL;
    for (std::size_t at = 0; at != on.count; ++at)
        if (const int error =
                listen_at(by, by.ids.at(2 * at), RDMA_PS_TCP, on.addresses.at(at), port))
            return error;
    if (!extensions::datagrams(on))
        return 0;
    for (std::size_t at = 0; at != on.count; ++at)
        if (const int error =
                listen_at(by, by.ids.at(2 * at + 1), RDMA_PS_UDP, on.addresses.at(at), port))
            return error;
    return 0;
}

/// A port that rdma_cm chose may be somebody's in TCP, as in connect.cpp; then it chooses again.
int listen_anywhere(listener &by, std::uint16_t &port) noexcept {
    int error = EADDRINUSE;
    for (int tries = 0; error == EADDRINUSE && tries != 8; ++tries) {
        by.stop();
        port = 0;
        error = listen(by, port);
    }
    return error;
}

template <class kind>
void end(kind *one) noexcept {
    one->home->give_back(one->requests);
    discard(one);
}

/// Requests come as soon as it listens, so its handle is good before.
template <class kind>
DAT_RETURN open(kind *made, DAT_CONN_QUAL qualifier) noexcept {
    ia &on = *made->home;
    std::uint16_t port = port_of(qualifier);
    made->qualifier = qualifier;
    on.adopt(made);
    const int error = port == 0 ? listen_anywhere(*made, port) : listen(*made, port);
    if (error == 0) {
        made->qualifier = qualifier == 0 ? port : qualifier;
        return DAT_SUCCESS;
    }
    bool in_use;
    on.disown(made, in_use);
    return failed_with(error, DAT_RESOURCE_TEP);
}

evd *request_evd(ia &on, DAT_EVD_HANDLE wanted) noexcept {
    evd *const one = on.borrow<evd>(wanted);
    if (one != nullptr && (one->flags & DAT_EVD_CR_FLAG) == 0) {
        on.give_back(one);
        return nullptr;
    }
    return one;
}

/// What all of them are made by, from the argument that is their EVD on; of those behind it but for
/// the handle, the fifth, arguments tells. fill() makes one complete, or says what it lacks.
template <class kind, class filling>
DAT_RETURN create(ia &on, DAT_CONN_QUAL qualifier, DAT_EVD_HANDLE evd_handle, DAT_RETURN arguments,
                  DAT_HANDLE *handle, filling &&fill) noexcept {
    evd *const requests = request_evd(on, evd_handle);
    if (requests == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EVD_CR);
    DAT_RETURN result = arguments;
    if (result == DAT_SUCCESS && handle == nullptr)
        result = wrong_argument(5);
    kind *const made = result == DAT_SUCCESS ? prepare<kind>(on) : nullptr;
    if (made != nullptr) {
        made->requests = requests;
        result = fill(*made);
        if (result == DAT_SUCCESS)
            result = open(made, qualifier);
        if (result == DAT_SUCCESS) {
            *handle = made;
            return DAT_SUCCESS;
        }
        discard(made);
    } else if (result == DAT_SUCCESS) {
        result = exhausted(DAT_RESOURCE_MEMORY);
    }
    on.give_back(requests);
    return result;
}

DAT_RETURN create_psp(ia &on, DAT_CONN_QUAL qualifier, DAT_EVD_HANDLE evd_handle,
                      DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *psp_handle) noexcept {
    const bool known = flags == DAT_PSP_CONSUMER_FLAG || flags == DAT_PSP_PROVIDER_FLAG;
    return create<psp>(on, qualifier, evd_handle,
                       known ? DAT_RETURN{DAT_SUCCESS} : wrong_argument(4), psp_handle,
                       [flags](psp &made) {
                           made.flags = flags;
                           if (flags == DAT_PSP_PROVIDER_FLAG)
                               made.endpoint = made_for_it;
                           return DAT_RETURN{DAT_SUCCESS};
                       });
}

} // namespace

void end_listener(psp *one) noexcept {
    end(one);
}

void end_listener(csp *one) noexcept {
    end(one);
}

void end_listener(rsp *one) noexcept {
    ia &on = *one->home;
    evd *const requests = one->requests;
    ep *const left = one->reserved.exchange(nullptr);
    if (left != nullptr) {
        // Nobody came: it is as it was before.
        left->state.store(DAT_EP_STATE_UNCONNECTED, std::memory_order_release);
        on.give_back(left);
    }
    discard(one);
    on.give_back(requests);
}

} // namespace coherdma::dapl::cm

namespace coherdma::dapl {

using cm::csp;
using cm::psp;
using cm::rsp;

namespace {

template <class kind>
DAT_RETURN free_listener(DAT_HANDLE handle, DAT_UINT32 subtype) noexcept {
    kind *const one = called_with<kind>(handle);
    bool in_use;
    if (one == nullptr || !one->home->disown(one, in_use))
        return wrong_handle(subtype);
    cm::end_listener(one);
    return DAT_SUCCESS;
}

} // namespace

DAT_RETURN psp_create(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL qualifier, DAT_EVD_HANDLE evd_handle,
                      DAT_PSP_FLAGS flags, DAT_PSP_HANDLE *psp_handle) noexcept {
    ia *const on = called_with<ia>(ia_handle);
    if (on == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_IA);
    if (cm::port_of(qualifier) == 0)
        return wrong_argument(2);
    return cm::create_psp(*on, qualifier, evd_handle, flags, psp_handle);
}

DAT_RETURN psp_create_any(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL *qualifier,
                          DAT_EVD_HANDLE evd_handle, DAT_PSP_FLAGS flags,
                          DAT_PSP_HANDLE *psp_handle) noexcept {
    ia *const on = called_with<ia>(ia_handle);
    if (on == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_IA);
    if (qualifier == nullptr)
        return wrong_argument(2);
    const DAT_RETURN result = cm::create_psp(*on, 0, evd_handle, flags, psp_handle);
    if (result == DAT_SUCCESS)
        *qualifier = static_cast<psp *>(*psp_handle)->qualifier;
    return result;
}

DAT_RETURN psp_query(DAT_PSP_HANDLE psp_handle, DAT_PSP_PARAM_MASK mask,
                     DAT_PSP_PARAM *param) noexcept {
    psp *const one = called_with<psp>(psp_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_PSP);
    if ((mask & ~DAT_PSP_FIELD_ALL) != 0)
        return wrong_argument(2);
    if (param == nullptr)
        return wrong_argument(3);
    *param = {};
    param->ia_handle = one->home->handle();
    param->conn_qual = one->qualifier;
    param->evd_handle = one->requests;
    param->psp_flags = one->flags;
    return DAT_SUCCESS;
}

DAT_RETURN psp_free(DAT_PSP_HANDLE psp_handle) noexcept {
    return free_listener<psp>(psp_handle, DAT_INVALID_HANDLE_PSP);
}

DAT_RETURN rsp_create(DAT_IA_HANDLE ia_handle, DAT_CONN_QUAL qualifier, DAT_EP_HANDLE ep_handle,
                      DAT_EVD_HANDLE evd_handle, DAT_RSP_HANDLE *rsp_handle) noexcept {
    ia *const on = called_with<ia>(ia_handle);
    if (on == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_IA);
    if (cm::port_of(qualifier) == 0)
        return wrong_argument(2);
    ep *const one = on->borrow<ep>(ep_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EP);
    bool reserved = false;
    const DAT_RETURN result = cm::create<rsp>(
        *on, qualifier, evd_handle, DAT_SUCCESS, rsp_handle, [one, &reserved](rsp &made) {
            DAT_EP_STATE state = DAT_EP_STATE_UNCONNECTED;
            reserved = one->state.compare_exchange_strong(state, DAT_EP_STATE_RESERVED);
            made.reserved.store(one);
            made.endpoint = cm::the_reserved;
            return reserved ? DAT_RETURN{DAT_SUCCESS} : wrong_state(subtype_of(state));
        });
    if (result == DAT_SUCCESS)
        return DAT_SUCCESS;
    if (reserved)
        one->state.store(DAT_EP_STATE_UNCONNECTED, std::memory_order_release);
    on->give_back(one);
    return result;
}

DAT_RETURN rsp_query(DAT_RSP_HANDLE rsp_handle, DAT_RSP_PARAM_MASK mask,
                     DAT_RSP_PARAM *param) noexcept {
    rsp *const one = called_with<rsp>(rsp_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_RSP);
    if ((mask & ~DAT_RSP_FIELD_ALL) != 0)
        return wrong_argument(2);
    if (param == nullptr)
        return wrong_argument(3);
    *param = {};
    param->ia_handle = one->home->handle();
    param->conn_qual = one->qualifier;
    param->evd_handle = one->requests;
    param->ep_handle = one->reserved.load();
    return DAT_SUCCESS;
}

DAT_RETURN rsp_free(DAT_RSP_HANDLE rsp_handle) noexcept {
    return free_listener<rsp>(rsp_handle, DAT_INVALID_HANDLE_RSP);
}

DAT_RETURN csp_create(DAT_IA_HANDLE ia_handle, DAT_COMM *comm, DAT_IA_ADDRESS_PTR where,
                      DAT_EVD_HANDLE evd_handle, DAT_CSP_HANDLE *csp_handle) noexcept {
    ia *const on = called_with<ia>(ia_handle);
    if (on == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_IA);
    if (comm == nullptr)
        return wrong_argument(2);
    if (where == nullptr || (where->sa_family != AF_INET && where->sa_family != AF_INET6))
        return wrong_argument(3);
    const bool known = (comm->domain == AF_INET || comm->domain == AF_INET6) &&
                       comm->type == SOCK_STREAM &&
                       (comm->protocol == 0 || comm->protocol == IPPROTO_TCP);
    if (!known)
        return failed(DAT_COMM_NOT_SUPPORTED);
    address at = cm::name_of(where);
    const DAT_RETURN result = cm::create<csp>(*on, ntohs(at.port()), evd_handle, DAT_SUCCESS,
                                              csp_handle, [comm, &at](csp &made) {
                                                  made.comm = *comm;
                                                  made.at = at;
                                                  return DAT_RETURN{DAT_SUCCESS};
                                              });
    if (result != DAT_SUCCESS)
        return result == failed(DAT_CONN_QUAL_IN_USE) ? failed(DAT_PORT_IN_USE) : result;
    csp &made = *static_cast<csp *>(*csp_handle);
    made.at.port() = htons(static_cast<std::uint16_t>(made.qualifier));
    return DAT_SUCCESS;
}

DAT_RETURN csp_query(DAT_CSP_HANDLE csp_handle, DAT_CSP_PARAM_MASK mask,
                     DAT_CSP_PARAM *param) noexcept {
    csp *const one = called_with<csp>(csp_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_CSP);
    if ((mask & ~DAT_CSP_FIELD_ALL) != 0)
        return wrong_argument(2);
    if (param == nullptr)
        return wrong_argument(3);
    *param = {};
    param->ia_handle = one->home->handle();
    param->comm = &one->comm;
    param->address_ptr = &one->at.any;
    param->evd_handle = one->requests;
    return DAT_SUCCESS;
}

DAT_RETURN csp_free(DAT_CSP_HANDLE csp_handle) noexcept {
    return free_listener<csp>(csp_handle, DAT_INVALID_HANDLE_CSP);
}

} // namespace coherdma::dapl

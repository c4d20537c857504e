// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a program does with a request: accepts it, refuses it, or hands it to another listener.

#include "../api.hpp"
#include "../evd.hpp"
#include "extensions/ud.hpp"
#include "listener.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <utility>

namespace coherdma::dapl::cm {

request::~request() {
    delete link;
}

void refuse(rdma_cm_id *id, std::uint32_t by, const void *data, std::size_t size) noexcept {
    std::array<unsigned char, sizeof by + most_private_data> words;
    const std::uint32_t mark = htonl(by);
    std::memcpy(words.data(), &mark, sizeof mark);
    if (size != 0)
        std::memcpy(words.data() + sizeof mark, data, size);
    rdma_reject(id, words.data(), static_cast<std::uint8_t>(sizeof mark + size));
}

namespace {

/// The endpoint that came with a request is free again.
void release(request &one) noexcept {
    ep *const with = one.for_one;
    if (with == nullptr)
        return;
    one.for_one = nullptr;
    if (one.made) {
        bool in_use;
        with->home->give_back(with);
        if (with->home->disown(with, in_use))
            end_ep(with);
        return;
    }
    with->state.store(DAT_EP_STATE_UNCONNECTED, std::memory_order_release);
    with->home->give_back(with);
}

int accept(ep &one, connection &link, const void *data, DAT_COUNT size) noexcept {
    link.responder = std::min(link.responder,
                              static_cast<std::uint8_t>(std::min(one.attr.max_rdma_read_in, 255)));
    link.initiator = std::min(link.initiator,
                              static_cast<std::uint8_t>(std::min(one.attr.max_rdma_read_out, 255)));
    if (const int error = make_ready(one, link))
        return error;
    rdma_conn_param with = {};
    with.private_data = data;
    with.private_data_len = static_cast<std::uint8_t>(size);
    with.responder_resources = link.responder;
    with.initiator_depth = link.initiator;
    with.flow_control = 1;
    with.rnr_retry_count = 7;
    with.srq = one.shares;
    with.qp_num = one.qp->qp_num;
    return rdma_accept(link.id, &with) == 0 ? 0 : errno;
}

/// The endpoint for it: the program's, or that which came with it. Counted as used.
DAT_RETURN choose(request &one, DAT_EP_HANDLE ep_handle, ep *&with) noexcept {
    if (one.for_one != nullptr) {
        if (ep_handle != DAT_HANDLE_NULL && ep_handle != one.for_one)
            return wrong_handle(DAT_INVALID_HANDLE_EP);
        with = one.for_one;
        const DAT_EP_STATE state = with->now();
        if (state != DAT_EP_STATE_PASSIVE_CONNECTION_PENDING &&
            state != DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING)
            return wrong_state(subtype_of(state));
        return DAT_SUCCESS;
    }
    with = one.home->borrow<ep>(ep_handle);
    if (with == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EP);
    const DAT_EP_STATE state = with->now();
    const bool datagrams = one.link->id->ps == RDMA_PS_UDP;
    if (datagrams != extensions::is_datagram(with->attr)) {
        one.home->give_back(with);
        return wrong_handle(DAT_INVALID_HANDLE_EP);
    }
    if (state != DAT_EP_STATE_UNCONNECTED && !datagrams) {
        one.home->give_back(with);
        return wrong_state(subtype_of(state));
    }
    return DAT_SUCCESS;
}

/// The request gets a new handle, which the other listener's program is told. The old one is bad.
DAT_RETURN hand(request &one, listener &to) noexcept {
    ia &on = *one.home;
    request *const next = prepare<request>(on);
    if (next == nullptr)
        return exhausted(DAT_RESOURCE_MEMORY);
    bool in_use;
    if (!on.disown(&one, in_use)) {
        discard(next);
        return wrong_handle(DAT_INVALID_HANDLE_CR);
    }
    next->link = std::exchange(one.link, nullptr);
    next->for_one = std::exchange(one.for_one, nullptr);
    next->made = one.made;
    next->remote = one.remote;
    on.adopt(next);
    if (to.announce(*next)) {
        discard(&one);
        return DAT_SUCCESS;
    }
    // It stays with who had it.
    on.disown(next, in_use);
    one.link = std::exchange(next->link, nullptr);
    one.for_one = std::exchange(next->for_one, nullptr);
    discard(next);
    on.adopt(&one);
    return failed(DAT_QUEUE_FULL);
}

} // namespace

void end_request(request *one) noexcept {
    if (one->link != nullptr)
        refuse(one->link->id, by_system);
    release(*one);
    discard(one);
}

} // namespace coherdma::dapl::cm

namespace coherdma::dapl {

using cm::connection;
using cm::request;

DAT_RETURN cr_query(DAT_CR_HANDLE cr_handle, DAT_CR_PARAM_MASK mask, DAT_CR_PARAM *param) noexcept {
    request *const one = called_with<request>(cr_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_CR);
    if ((mask & ~DAT_CR_FIELD_ALL) != 0)
        return wrong_argument(2);
    if (param == nullptr)
        return wrong_argument(3);
    *param = {};
    param->remote_ia_address_ptr = &one->remote.any;
    param->remote_port_qual = ntohs(one->remote.port());
    const std::size_t skipped = extensions::before_data(*one->link);
    param->private_data_size = static_cast<DAT_COUNT>(one->link->received - skipped);
    param->private_data =
        param->private_data_size != 0 ? one->link->peers.data() + skipped : nullptr;
    param->local_ep_handle = one->for_one;
    return DAT_SUCCESS;
}

DAT_RETURN cr_accept(DAT_CR_HANDLE cr_handle, DAT_EP_HANDLE ep_handle, DAT_COUNT size,
                     const DAT_PVOID data) noexcept {
    request *const one = called_with<request>(cr_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_CR);
    if (size < 0 || size > cm::most_private_data)
        return wrong_argument(3);
    if (size > 0 && data == nullptr)
        return wrong_argument(4);
    ep *with = nullptr;
    DAT_RETURN result = cm::choose(*one, ep_handle, with);
    if (result != DAT_SUCCESS)
        return result;
    ia &on = *one->home;
    if (with->zone == nullptr || with->qp == nullptr || with->connect_evd == nullptr) {
        if (one->for_one == nullptr)
            on.give_back(with);
        return wrong_state(DAT_INVALID_STATE_EP_NOTREADY);
    }
    bool in_use;
    if (!on.disown(one, in_use)) {
        if (one->for_one == nullptr)
            on.give_back(with);
        return wrong_handle(DAT_INVALID_HANDLE_CR);
    }
    // The private data may be the request's own, which lives until the end of this call.
    connection &link = *one->link;
    if (extensions::is_datagram(with->attr)) {
        one->link = nullptr;
        result = extensions::answer(*with, &link, data, size);
        on.give_back(with);
        discard(one);
        return result;
    }
    bool failed;
    {
        const holding held(with->guard);
        with->remote = one->remote;
        with->remote_qual = ntohs(one->remote.port());
        with->link = &link;
        with->state.store(DAT_EP_STATE_COMPLETION_PENDING, std::memory_order_release);
        link.of.store(with, std::memory_order_release);
        // With the lock: from its end on another thread may end the connection.
        failed = link.vanished.load(std::memory_order_acquire) ||
                 cm::accept(*with, link, data, size) != 0;
    }
    one->link = nullptr;
    one->for_one = nullptr;
    if (failed)
        cm::over(*with, DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR);
    on.give_back(with); // It is no longer the request's; its state keeps it.
    discard(one);
    return DAT_SUCCESS;
}

DAT_RETURN cr_reject(DAT_CR_HANDLE cr_handle, DAT_COUNT size, const DAT_PVOID data) noexcept {
    request *const one = called_with<request>(cr_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_CR);
    if (size < 0 || size > cm::most_private_data)
        return wrong_argument(2);
    if (size > 0 && data == nullptr)
        return wrong_argument(3);
    bool in_use;
    if (!one->home->disown(one, in_use))
        return wrong_handle(DAT_INVALID_HANDLE_CR);
    cm::refuse(one->link->id, cm::by_program, data, static_cast<std::size_t>(size));
    cm::release(*one);
    discard(one);
    return DAT_SUCCESS;
}

DAT_RETURN cr_handoff(DAT_CR_HANDLE cr_handle, DAT_CONN_QUAL qualifier) noexcept {
    request *const one = called_with<request>(cr_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_CR);
    cm::psp *to = nullptr;
    {
        const holding held(one->home->guard);
        for (to = one->home->first_of<cm::psp>(); to != nullptr && to->qualifier != qualifier;)
            to = static_cast<cm::psp *>(to->next);
        if (to != nullptr)
            ++to->users;
    }
    if (to == nullptr)
        return wrong_argument(2);
    const DAT_RETURN result = cm::hand(*one, *to);
    one->home->give_back(to);
    return result;
}

} // namespace coherdma::dapl

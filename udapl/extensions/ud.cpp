// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "ud.hpp"

#include "dapl/clock.hpp"
#include "dapl/evd.hpp"
#include "dapl/post.hpp"
#include "dapl/pz.hpp"
#include "dapl/settings.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <dat2/dat_ib_extensions.h>
#include <memory>

namespace coherdma::dapl::extensions {

namespace {

/// Before the private data of a request, in the wire's order.
struct caller {
    std::uint32_t mark;
    std::uint32_t number; ///< of its queue pair
};
constexpr std::uint32_t mark = 0x63684455; // "chDU"

bool read(const cm::connection &link, caller &from) noexcept {
    if (link.received < sizeof from)
        return false;
    std::memcpy(&from, link.peers.data(), sizeof from);
    return from.mark == htonl(mark);
}

} // namespace

/// A resolution that is under way or done.
struct peer final : cm::party {
    explicit peer(ep &whose) noexcept
        : of(whose) {}
    ~peer() {
        if (id != nullptr)
            rdma_destroy_id(id);
    }
    void happened(rdma_cm_event &event) noexcept override;

    ep &of;
    rdma_cm_id *id = nullptr;
    address remote = {};
    bool told = false;
    int tries = 0;
    std::uint8_t size = 0;
    std::array<unsigned char, sizeof(caller) + cm::most_private_data> data = {};
    std::array<unsigned char, 256> answered = {};
    peer *next = nullptr;
};

namespace {

void keep(ep &one, peer *made) noexcept {
    const holding held(one.guard);
    made->next = one.peers;
    one.peers = made;
}

struct news {
    DAT_IB_EVENT_NUMBER number;
    DAT_IB_EXT_TYPE type;
    ibv_ah *where = nullptr;
    std::uint32_t queue_pair = 0;
    const void *data = nullptr;
    std::size_t size = 0;
};

void tell(ep &one, peer &about, const news &what) noexcept {
    if (one.connect_evd == nullptr)
        return;
    DAT_EVENT event = {};
    event.event_number = static_cast<DAT_EVENT_NUMBER>(what.number);
    auto &data = event.event_data.connect_event_data;
    data.ep_handle = &one;
    data.private_data_size = static_cast<DAT_COUNT>(what.size);
    data.private_data = const_cast<void *>(what.data);
    DAT_IB_EXTENSION_EVENT_DATA more;
    std::memset(&more, 0, sizeof more);
    more.type = what.type;
    more.status = DAT_OP_SUCCESS;
    more.remote_ah.ah = what.where;
    more.remote_ah.qpn = what.queue_pair;
    std::memcpy(&more.remote_ah.ia_addr, &about.remote,
                std::min(sizeof more.remote_ah.ia_addr, sizeof about.remote));
    more.context.as_ptr = &about;
    std::memcpy(event.event_extension_data, &more, sizeof more);
    one.connect_evd->post(event);
}

void failed_to(peer &one, DAT_IB_EVENT_NUMBER number) noexcept {
    if (one.told)
        return;
    one.told = true;
    tell(one.of, one,
         {number, number == DAT_IB_UD_CONNECTION_REJECT_EVENT ? DAT_IB_UD_CONNECT_REJECT
                                                              : DAT_IB_UD_CONNECT_ERROR});
}

bool ask(peer &one) noexcept {
    rdma_conn_param with = {};
    with.private_data = one.data.data();
    with.private_data_len = one.size;
    with.qp_num = one.of.qp->qp_num;
    return one.id->verbs == one.of.home->verbs() && rdma_connect(one.id, &with) == 0;
}

void found(peer &one, const rdma_ud_param &with) noexcept {
    ibv_ah_attr where = with.ah_attr;
    news what = {DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED, DAT_IB_UD_REMOTE_AH};
    what.where = ibv_create_ah(one.of.zone->domain.get(), &where);
    if (what.where == nullptr)
        return failed_to(one, DAT_IB_UD_CONNECTION_ERROR_EVENT);
    what.queue_pair = with.qp_num;
    if (with.private_data != nullptr) {
        what.size = with.private_data_len;
        std::memcpy(one.answered.data(), with.private_data, what.size);
        what.data = one.answered.data();
    }
    one.told = true;
    one.of.open();
    one.of.state.store(DAT_EP_STATE_CONNECTED, std::memory_order_release);
    tell(one.of, one, what);
}

/// Where datagrams to an address of this network go, or nullptr.
ibv_ah *address_of(ep &one, const rdma_cm_id &by) noexcept {
    const device &on = *one.home->on;
    if (on.state.link_layer != IBV_LINK_LAYER_ETHERNET)
        return nullptr; // Its place in the fabric is not told.
    ibv_ah_attr where = {};
    where.is_global = 1;
    where.port_num = on.port;
    where.grh.hop_limit = 64;
    where.grh.dgid = by.route.addr.addr.ibaddr.dgid;
    for (std::uint32_t at = 0; at != static_cast<std::uint32_t>(on.state.gid_tbl_len); ++at) {
        ibv_gid_entry entry = {};
        if (ibv_query_gid_ex(on.verbs, on.port, at, &entry, 0) != 0 ||
            std::memcmp(&entry.gid, &by.route.addr.addr.ibaddr.sgid, sizeof entry.gid) != 0)
            continue;
        where.grh.sgid_index = static_cast<std::uint8_t>(at);
        if (ibv_ah *const made = ibv_create_ah(one.zone->domain.get(), &where))
            return made;
    }
    return nullptr;
}

// A datagram that its sender's end overtakes is lost, as none of a connection would be; and so is
// one whose address goes before it: rxe looks that up when it sends. Both are a matter of
// microseconds, or, where the processor has much else to do, of as long as it takes to be served.
void let_go(ep &one) noexcept {
    constexpr std::int64_t patience = 2'000'000'000;
    const std::int64_t until = deadline::now() + patience;
    for (;;) {
        {
            const holding held(one.request_evd->guard);
            one.request_evd->gather();
        }
        if (one.requests.outstanding() == 0 || deadline::now() >= until)
            return;
        usleep(1000);
    }
}

} // namespace

void peer::happened(rdma_cm_event &event) noexcept {
    switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        if (rdma_resolve_route(id, settings::route_timeout()) != 0)
            failed_to(*this, DAT_IB_UD_CONNECTION_ERROR_EVENT);
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        if (!ask(*this))
            failed_to(*this, DAT_IB_UD_CONNECTION_ERROR_EVENT);
        break;
    case RDMA_CM_EVENT_ESTABLISHED:
        found(*this, event.param.ud);
        break;
    case RDMA_CM_EVENT_UNREACHABLE: // A status is an answer, a negative one that there was none.
        failed_to(*this, event.status > 0 ? DAT_IB_UD_CONNECTION_REJECT_EVENT
                                          : DAT_IB_UD_CONNECTION_ERROR_EVENT);
        break;
    case RDMA_CM_EVENT_REJECTED:
        failed_to(*this, DAT_IB_UD_CONNECTION_REJECT_EVENT);
        break;
    case RDMA_CM_EVENT_ADDR_ERROR:
        if (tries++ < settings::arp_retries() && event.status == -ETIMEDOUT &&
            rdma_resolve_addr(id, nullptr, &remote.any, settings::arp_timeout()) == 0)
            break;
        [[fallthrough]];
    default:
        failed_to(*this, DAT_IB_UD_CONNECTION_ERROR_EVENT);
    }
}

bool datagrams(const device &on) noexcept {
    return !on.iwarp;
}

int start_datagrams(ep &one) noexcept {
    ibv_qp_attr attr = {};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = one.home->on->port;
    attr.qkey = RDMA_UDP_QKEY;
    ibv_qp *const pair = one.own.get();
    if (const int error = ibv_modify_qp(
            pair, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
        return error;
    attr.qp_state = IBV_QPS_RTR;
    if (const int error = ibv_modify_qp(pair, &attr, IBV_QP_STATE))
        return error;
    attr.qp_state = IBV_QPS_RTS;
    return ibv_modify_qp(pair, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

DAT_RETURN resolve(ep &one, const address &to, DAT_TIMEOUT, const void *data,
                   DAT_COUNT size) noexcept {
    auto made = std::make_unique<peer>(one);
    const caller self = {htonl(mark), htonl(one.qp->qp_num)};
    std::memcpy(made->data.data(), &self, sizeof self);
    if (size != 0)
        std::memcpy(made->data.data() + sizeof self, data, static_cast<std::size_t>(size));
    made->size = static_cast<std::uint8_t>(sizeof self + static_cast<std::size_t>(size));
    made->remote = to;
    if (rdma_create_id(events::channel(), &made->id, static_cast<cm::party *>(made.get()),
                       RDMA_PS_UDP) != 0)
        return failed_with(errno, DAT_RESOURCE_TEP);
    peer &asked = *made.release();
    keep(one, &asked);
    const address *const from = one.home->on->of_family(to.any.sa_family);
    address source = from != nullptr ? *from : address{};
    if (rdma_resolve_addr(asked.id, from != nullptr ? &source.any : nullptr, &asked.remote.any,
                          settings::arp_timeout()) != 0)
        failed_to(asked, DAT_IB_UD_CONNECTION_ERROR_EVENT);
    return DAT_SUCCESS;
}

std::size_t before_data(const cm::connection &link) noexcept {
    caller from;
    return link.id->ps == RDMA_PS_UDP && read(link, from) ? sizeof from : 0;
}

DAT_RETURN answer(ep &one, cm::connection *link, const void *data, DAT_COUNT size) noexcept {
    auto made = std::make_unique<peer>(one);
    rdma_conn_param with = {};
    with.private_data = data;
    with.private_data_len = static_cast<std::uint8_t>(size);
    with.qp_num = one.qp->qp_num;
    const bool accepted = rdma_accept(link->id, &with) == 0;
    caller from = {};
    news what = {DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED, DAT_IB_UD_PASSIVE_REMOTE_AH};
    if (accepted && read(*link, from)) {
        what.queue_pair = ntohl(from.number);
        what.where = address_of(one, *link->id);
    }
    // The id goes on answering a request that is repeated. Its events are of no interest.
    if (const sockaddr *const peers = rdma_get_peer_addr(link->id))
        std::memcpy(&made->remote, peers,
                    peers->sa_family == AF_INET6 ? sizeof made->remote.v6 : sizeof made->remote.v4);
    made->told = true;
    made->id = link->id;
    made->id->context = static_cast<cm::party *>(made.get());
    link->id = nullptr;
    peer &known = *made.release();
    keep(one, &known);
    delete link;
    if (!accepted) {
        known.told = false;
        failed_to(known, DAT_IB_UD_CONNECTION_ERROR_EVENT);
        return DAT_SUCCESS;
    }
    one.open();
    one.state.store(DAT_EP_STATE_CONNECTED, std::memory_order_release);
    tell(one, known, what);
    return DAT_SUCCESS;
}

void forget_peers(ep &one) noexcept {
    if (is_datagram(one.attr) && one.request_evd != nullptr)
        let_go(one);
    peer *each;
    {
        const holding held(one.guard);
        each = one.peers;
        one.peers = nullptr;
    }
    while (each != nullptr) {
        peer *const next = each->next;
        delete each;
        each = next;
    }
}

DAT_RETURN free_resolution(ep &one, std::va_list arguments) noexcept {
    const void *const wanted = va_arg(arguments, void *);
    peer *found = nullptr;
    {
        const holding held(one.guard);
        for (peer **place = &one.peers; *place != nullptr; place = &(*place)->next)
            if (*place == wanted) {
                found = *place;
                *place = found->next;
                break;
            }
    }
    delete found;
    return found != nullptr ? DAT_RETURN{DAT_SUCCESS} : wrong_argument(3);
}

DAT_RETURN free_address(ep &one, std::va_list arguments) noexcept {
    auto *const where = va_arg(arguments, DAT_IB_ADDR_HANDLE *);
    if (where == nullptr)
        return wrong_argument(3);
    if (is_datagram(one.attr) && one.request_evd != nullptr)
        let_go(one);
    if (where->ah != nullptr && ibv_destroy_ah(where->ah) != 0)
        return wrong_argument(3);
    where->ah = nullptr;
    return DAT_SUCCESS;
}

DAT_RETURN post_datagram(ep &one, std::va_list arguments) noexcept {
    constexpr posting datagram = {IBV_WR_SEND, DAT_IB_DTO_SEND_UD, true};
    const auto segments = va_arg(arguments, DAT_COUNT);
    auto *const iov = va_arg(arguments, DAT_LMR_TRIPLET *);
    const auto *const where = va_arg(arguments, const DAT_IB_ADDR_HANDLE *);
    const auto cookie = va_arg(arguments, DAT_DTO_COOKIE);
    const auto flags = static_cast<DAT_COMPLETION_FLAGS>(va_arg(arguments, int));
    if (segments < 0 || segments > one.request_iov)
        return wrong_argument(2);
    if (iov == nullptr && segments != 0)
        return wrong_argument(3);
    if (where == nullptr || where->ah == nullptr)
        return wrong_argument(4);
    if (!is_datagram(one.attr) || !one.takes_requests())
        return wrong_state(subtype_of(one.now()));
    std::uint32_t length;
    if (!sum(iov, segments, length) || length > one.longest)
        return failed(DAT_LENGTH_ERROR);
    // Each completes, so that it is known when all are sent; who suppressed it does not hear of it.
    const bool told = (static_cast<unsigned>(flags) & DAT_COMPLETION_SUPPRESS_FLAG) == 0;
    const auto signalled = static_cast<DAT_COMPLETION_FLAGS>(
        static_cast<unsigned>(flags) & ~unsigned{DAT_COMPLETION_SUPPRESS_FLAG});
    return post(one, datagram,
                {segments, iov, length, cookie.as_64, flags_of(signalled), told ? nullptr : &one},
                [&](ibv_send_wr &wanted) {
                    wanted.wr.ud.ah = where->ah;
                    wanted.wr.ud.remote_qpn = where->qpn;
                    wanted.wr.ud.remote_qkey = RDMA_UDP_QKEY;
                });
}

} // namespace coherdma::dapl::extensions

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "ud.hpp"

#include "dapl/core/deadline.hpp"
#include "dapl/core/settings.hpp"
#include "dapl/ep/post.hpp"
#include "dapl/event/evd.hpp"
#include "dapl/ia/ia.hpp"
#include "dapl/memory/pz.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <dat2/dat_ib_extensions.h>
#include <memory>
#include <new>
#include <unistd.h>
#include <utility>

namespace coherdma::dapl::cm {

namespace {

/// Precedes the private data of a connection request. Big-endian.
struct req_header {
    std::uint32_t magic;
    std::uint32_t qpn;
};
constexpr std::uint32_t req_magic = 0x63684455; // "chDU"

bool parse_req_header(const connection &conn, req_header &header) noexcept {
    if (conn.peer_data_len < sizeof header)
        return false;
    std::memcpy(&header, conn.peer_data.data(), sizeof header);
    return header.magic == htonl(req_magic);
}

} // namespace

/// A peer of a UD EP whose QP dat_ep_connect resolves or has resolved, or whose request was
/// accepted.
struct ud_peer final : cm_handler, timer_task {
    explicit ud_peer(dapl_ep &owner) noexcept
        : ep(owner) {}
    ~ud_peer() {
        event_thread::cancel(*this);
        if (id != nullptr)
            destroy_id(id);
    }
    void handle_event(rdma_cm_event &event) noexcept override;
    void run() noexcept override; ///< dat_ep_connect's timeout

    dapl_ep &ep;
    rdma_cm_id *id = nullptr;
    address remote = {};
    bool event_posted = false; ///< the result was reported: a later failure is not
    int arp_retries = 0;
    std::uint8_t req_size = 0; ///< of req_data, the private data of the request
    std::array<unsigned char, sizeof(req_header) + max_private_data> req_data = {};
    std::array<unsigned char, 256> rep_data = {};
    ud_peer *next = nullptr;
};

namespace {

void add_peer(dapl_ep &ep, ud_peer *peer) noexcept {
    const std::lock_guard guard(ep.lock);
    peer->next = ep.ud_peers;
    ep.ud_peers = peer;
}

/// What post_ud_event puts into a DAT event.
struct ud_event {
    DAT_IB_EVENT_NUMBER number;
    DAT_IB_EXT_TYPE type;
    ibv_ah *ah = nullptr;
    std::uint32_t qpn = 0;
    const void *private_data = nullptr;
    std::size_t size = 0;
};

/// Posts an event to the connection EVD of a UD EP. Its context identifies the peer to
/// ud_free_peer.
void post_ud_event(dapl_ep &ep, ud_peer &peer, const ud_event &info) noexcept {
    DAT_EVENT event = {};
    event.event_number = static_cast<DAT_EVENT_NUMBER>(info.number);
    auto &data = event.event_data.connect_event_data;
    data.ep_handle = &ep;
    data.private_data_size = static_cast<DAT_COUNT>(info.size);
    data.private_data = const_cast<void *>(info.private_data);
    DAT_IB_EXTENSION_EVENT_DATA ext_data;
    std::memset(&ext_data, 0, sizeof ext_data);
    ext_data.type = info.type;
    ext_data.status = DAT_OP_SUCCESS;
    ext_data.remote_ah.ah = info.ah;
    ext_data.remote_ah.qpn = info.qpn;
    std::memcpy(&ext_data.remote_ah.ia_addr, &peer.remote,
                std::min(sizeof ext_data.remote_ah.ia_addr, sizeof peer.remote));
    ext_data.context.as_ptr = &peer;
    std::memcpy(event.event_extension_data, &ext_data, sizeof ext_data);
    const auto evd = lookup<dapl_evd>(ep.connect_evd);
    if (!evd || !evd->post(event))
        ud_destroy_event_ah(event);
}

/// Reports that the peer was not resolved, unless a result was reported.
void post_failure(ud_peer &peer, DAT_IB_EVENT_NUMBER number) noexcept {
    if (peer.event_posted)
        return;
    peer.event_posted = true;
    post_ud_event(peer.ep, peer,
                  {number, number == DAT_IB_UD_CONNECTION_REJECT_EVENT ? DAT_IB_UD_CONNECT_REJECT
                                                                       : DAT_IB_UD_CONNECT_ERROR});
}

/// Sends the SIDR request. False: it failed, or the route is one of another device.
bool send_req(ud_peer &peer) noexcept {
    rdma_conn_param param = {};
    param.private_data = peer.req_data.data();
    param.private_data_len = peer.req_size;
    param.qp_num = peer.ep.qp->qp_num;
    return peer.ep.ia->dev->is_device_of(*peer.id) && rdma_connect(peer.id, &param) == 0;
}

/// The reply of the peer gives its QP number and address: creates an address handle and reports
/// both.
void handle_established(ud_peer &peer, const rdma_ud_param &ud_param) noexcept {
    ibv_ah_attr ah_attr = ud_param.ah_attr;
    ud_event info = {DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED, DAT_IB_UD_REMOTE_AH};
    info.ah = ibv_create_ah(peer.ep.pz->pd.get(), &ah_attr);
    if (info.ah == nullptr)
        return post_failure(peer, DAT_IB_UD_CONNECTION_ERROR_EVENT);
    info.qpn = ud_param.qp_num;
    if (ud_param.private_data != nullptr) {
        info.size = ud_param.private_data_len;
        std::memcpy(peer.rep_data.data(), ud_param.private_data, info.size);
        info.private_data = peer.rep_data.data();
    }
    peer.event_posted = true;
    peer.ep.enable_requests();
    peer.ep.state.store(DAT_EP_STATE_CONNECTED, std::memory_order_release);
    post_ud_event(peer.ep, peer, info);
}

/// An address handle of the peer of a connection request; nullptr: not on Ethernet, or failed.
ibv_ah *create_peer_ah(dapl_ep &ep, const rdma_cm_id &id) noexcept {
    const device &dev = *ep.ia->dev;
    if (dev.port_attr.link_layer != IBV_LINK_LAYER_ETHERNET)
        return nullptr; // rdma_cm does not give the passive side the peer's LID.
    ibv_ah_attr ah_attr = {};
    ah_attr.is_global = 1;
    ah_attr.port_num = dev.port;
    ah_attr.grh.hop_limit = 64;
    ah_attr.grh.dgid = id.route.addr.addr.ibaddr.dgid;
    for (std::uint32_t i = 0; i != static_cast<std::uint32_t>(dev.port_attr.gid_tbl_len); ++i) {
        ibv_gid_entry entry = {};
        if (ibv_query_gid_ex(dev.ctx(), dev.port, i, &entry, 0) != 0 ||
            std::memcmp(&entry.gid, &id.route.addr.addr.ibaddr.sgid, sizeof entry.gid) != 0)
            continue;
        ah_attr.grh.sgid_index = static_cast<std::uint8_t>(i);
        if (ibv_ah *const ah = ibv_create_ah(ep.pz->pd.get(), &ah_attr))
            return ah;
    }
    return nullptr;
}

/// Waits at most 2 s until all Sends have completed: a datagram is lost if its QP or its address
/// handle is destroyed first (rxe looks up the handle when it sends).
void drain_requests(dapl_ep &ep, dapl_evd &request_evd) noexcept {
    constexpr std::int64_t drain_timeout_ns = 2'000'000'000;
    const std::int64_t deadline = dat_deadline::now_ns() + drain_timeout_ns;
    for (;;) {
        {
            const std::lock_guard guard(request_evd.lock);
            request_evd.drain_cq(); // moves completions to the EVD
        }
        if (ep.requests.outstanding() == 0 || dat_deadline::now_ns() >= deadline)
            return;
        usleep(1000);
    }
}

/// The EVD cannot be freed while the caller uses it, though dat_ep_modify may replace it.
call_ref<dapl_evd> find_request_evd(dapl_ep &ep) noexcept {
    const std::lock_guard guard(ep.lock);
    return lookup<dapl_evd>(ep.request_evd);
}

} // namespace

/// In the event thread: the next step of the resolution.
void ud_peer::handle_event(rdma_cm_event &event) noexcept {
    switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        if (rdma_resolve_route(id, get_settings().route_timeout_ms) != 0)
            post_failure(*this, DAT_IB_UD_CONNECTION_ERROR_EVENT);
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        if (!send_req(*this))
            post_failure(*this, DAT_IB_UD_CONNECTION_ERROR_EVENT);
        break;
    case RDMA_CM_EVENT_ESTABLISHED:
        if (!event_posted)
            handle_established(*this, event.param.ud);
        break;
    case RDMA_CM_EVENT_UNREACHABLE: // > 0: the status in the peer's reply; < 0: there was none
        post_failure(*this, event.status > 0 ? DAT_IB_UD_CONNECTION_REJECT_EVENT
                                             : DAT_IB_UD_CONNECTION_ERROR_EVENT);
        break;
    case RDMA_CM_EVENT_REJECTED:
        post_failure(*this, DAT_IB_UD_CONNECTION_REJECT_EVENT);
        break;
    case RDMA_CM_EVENT_ADDR_ERROR:
        if (arp_retries++ < get_settings().arp_retries && event.status == -ETIMEDOUT &&
            resolve_address(ep, id, remote) == 0)
            break;
        [[fallthrough]];
    default:
        post_failure(*this, DAT_IB_UD_CONNECTION_ERROR_EVENT);
    }
}

void ud_peer::run() noexcept {
    post_failure(*this, DAT_IB_UD_CONNECTION_ERROR_EVENT);
}

/// Starts to resolve a peer; ud_peer::handle_event continues, and an event reports the result.
DAT_RETURN ud_connect(dapl_ep &ep, const address &addr, DAT_TIMEOUT timeout,
                      const void *private_data, DAT_COUNT size) noexcept {
    std::unique_ptr<ud_peer> new_peer(new (std::nothrow) ud_peer(ep));
    if (!new_peer)
        return no_resources(DAT_RESOURCE_MEMORY);
    const req_header header = {htonl(req_magic), htonl(ep.qp->qp_num)};
    std::memcpy(new_peer->req_data.data(), &header, sizeof header);
    if (size != 0)
        std::memcpy(new_peer->req_data.data() + sizeof header, private_data,
                    static_cast<std::size_t>(size));
    new_peer->req_size = static_cast<std::uint8_t>(sizeof header + static_cast<std::size_t>(size));
    new_peer->remote = addr;
    if (const int error = create_id(*new_peer, RDMA_PS_UDP, new_peer->id))
        return from_errno(error, DAT_RESOURCE_TEP);
    ud_peer &peer = *new_peer.release();
    add_peer(ep, &peer);
    // The timer after that: the event thread handles what follows, and this call a failure.
    if (resolve_address(ep, peer.id, peer.remote) != 0)
        post_failure(peer, DAT_IB_UD_CONNECTION_ERROR_EVENT);
    else if (timeout != DAT_TIMEOUT_INFINITE)
        event_thread::schedule(peer, dat_deadline::now_ns() + std::int64_t{timeout} * 1000);
    return DAT_SUCCESS;
}

/// Destroys the address handle in an event that no consumer will get.
void ud_destroy_event_ah(const DAT_EVENT &event) noexcept {
    DAT_IB_EXTENSION_EVENT_DATA ext_data;
    std::memcpy(&ext_data, event.event_extension_data, sizeof ext_data);
    if (ext_data.remote_ah.ah != nullptr)
        ibv_destroy_ah(ext_data.remote_ah.ah);
}

std::size_t ud_header_size(const connection &conn) noexcept {
    req_header header;
    return conn.id->ps == RDMA_PS_UDP && parse_req_header(conn, header) ? sizeof header : 0;
}

/// Replies to a request. Deletes it, unless memory is short. An event reports the result.
DAT_RETURN ud_accept(dapl_ep &ep, connection *&request, const void *private_data,
                     DAT_COUNT size) noexcept {
    std::unique_ptr<ud_peer> new_peer(new (std::nothrow) ud_peer(ep));
    if (!new_peer)
        return no_resources(DAT_RESOURCE_MEMORY);
    connection *const conn = std::exchange(request, nullptr);
    rdma_conn_param param = {};
    param.private_data = private_data;
    param.private_data_len = static_cast<std::uint8_t>(size);
    param.qp_num = ep.qp->qp_num;
    const bool accepted = rdma_accept(conn->id, &param) == 0;
    req_header header = {};
    ud_event info = {DAT_IB_UD_CONNECTION_EVENT_ESTABLISHED, DAT_IB_UD_PASSIVE_REMOTE_AH};
    if (accepted && parse_req_header(*conn, header)) {
        info.qpn = ntohl(header.qpn);
        info.ah = create_peer_ah(ep, *conn->id);
    }
    if (const sockaddr *const addr = rdma_get_peer_addr(conn->id))
        new_peer->remote = to_address(addr);
    // The rdma_cm_id is kept, since it replies to a repeated request; its events are ignored.
    new_peer->event_posted = true;
    new_peer->id = conn->id;
    new_peer->id->context = static_cast<cm_handler *>(new_peer.get());
    conn->id = nullptr;
    ud_peer &peer = *new_peer.release();
    add_peer(ep, &peer);
    delete conn;
    if (!accepted) {
        peer.event_posted = false;
        post_failure(peer, DAT_IB_UD_CONNECTION_ERROR_EVENT);
        return DAT_SUCCESS;
    }
    ep.enable_requests();
    ep.state.store(DAT_EP_STATE_CONNECTED, std::memory_order_release);
    post_ud_event(ep, peer, info);
    return DAT_SUCCESS;
}

/// For an EP that is freed, reset or modified, once its Sends have completed.
void ud_free_peers(dapl_ep &ep) noexcept {
    if (!ep.is_ud)
        return;
    if (ep.request_evd != nullptr)
        drain_requests(ep, *ep.request_evd);
    ud_peer *peer;
    {
        const std::lock_guard guard(ep.lock);
        peer = ep.ud_peers;
        ep.ud_peers = nullptr;
    }
    while (peer != nullptr) {
        ud_peer *const next_peer = peer->next;
        delete peer;
        peer = next_peer;
    }
}

/// args: the context of an event of the peer.
DAT_RETURN ud_free_peer(dapl_ep &ep, std::va_list args) noexcept {
    const void *const context = va_arg(args, void *);
    ud_peer *peer = nullptr;
    // The event thread may be handling an event of the peer, for which the QP must not change.
    const std::lock_guard setup_guard(ep.setup_lock);
    {
        const std::lock_guard guard(ep.lock);
        for (ud_peer **link = &ep.ud_peers; *link != nullptr; link = &(*link)->next)
            if (*link == context) {
                peer = *link;
                *link = peer->next;
                break;
            }
    }
    delete peer;
    return peer != nullptr ? DAT_RETURN{DAT_SUCCESS} : invalid_parameter(2);
}

/// args: an address handle of an event, which is destroyed once the Sends have completed.
DAT_RETURN ud_free_ah(dapl_ep &ep, std::va_list args) noexcept {
    auto *const remote_ah = va_arg(args, DAT_IB_ADDR_HANDLE *);
    if (remote_ah == nullptr)
        return invalid_parameter(2);
    if (const auto evd = find_request_evd(ep); evd && ep.is_ud)
        drain_requests(ep, *evd);
    if (remote_ah->ah != nullptr && ibv_destroy_ah(remote_ah->ah) != 0)
        return invalid_parameter(2);
    remote_ah->ah = nullptr;
    return DAT_SUCCESS;
}

/// args: as those of dat_ep_post_send, and the address handle of the peer.
DAT_RETURN post_ud_send(dapl_ep &ep, std::va_list args) noexcept {
    constexpr dto_op ud_send = {.opcode = IBV_WR_SEND,
                                .operation = DAT_IB_DTO_SEND_UD,
                                .can_inline = true,
                                .is_datagram = true};
    const auto num_segments = va_arg(args, DAT_COUNT);
    auto *const iov = va_arg(args, DAT_LMR_TRIPLET *);
    const auto *const remote_ah = va_arg(args, const DAT_IB_ADDR_HANDLE *);
    const auto user_cookie = va_arg(args, DAT_DTO_COOKIE);
    const auto flags = static_cast<unsigned>(va_arg(args, int));
    std::uint64_t length;
    const DAT_RETURN result = check_segments(ep, ep.max_request_iov, num_segments, iov, length);
    if (result != DAT_SUCCESS)
        return result;
    if (remote_ah == nullptr || remote_ah->ah == nullptr)
        return invalid_parameter(4);
    if (!ep.is_ud)
        return invalid_state(state_subtype(ep.current_state()));
    // Always signaled, so that drain_requests sees it complete. If the consumer suppresses the
    // completion, the cookie has an object (the EP), and the CQE makes no event.
    const bool suppressed = (flags & DAT_COMPLETION_SUPPRESS_FLAG) != 0;
    const auto signaled =
        static_cast<DAT_COMPLETION_FLAGS>(flags & ~unsigned{DAT_COMPLETION_SUPPRESS_FLAG});
    return post(ep, ud_send,
                {num_segments, iov, static_cast<std::uint32_t>(length), user_cookie.as_64,
                 verbs_flags(signaled), suppressed ? &ep : nullptr},
                [&](ibv_send_wr &wr) {
                    wr.wr.ud.ah = remote_ah->ah;
                    wr.wr.ud.remote_qpn = remote_ah->qpn;
                    wr.wr.ud.remote_qkey = RDMA_UDP_QKEY;
                });
}

} // namespace coherdma::dapl::cm

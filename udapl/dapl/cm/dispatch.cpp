// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Reads librdmacm's event channel and passes each event to the handler of its id.

#include "connection.hpp"
#include "dapl/core/fork_guard.hpp"
#include "dapl/core/log.hpp"
#include "dapl/core/settings.hpp"
#include "dapl/ia/ia.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <cerrno>
#include <cstring>

namespace coherdma::dapl::cm {

namespace {

/// With the addresses of both ends, and the reason that rdma_cm has, in the status.
[[gnu::cold]] void log_event(rdma_cm_event &event) noexcept {
    log(log_type::connections, "connection from %s to %s: %s, status %d",
        to_text(*rdma_get_local_addr(event.id)).data(),
        to_text(*rdma_get_peer_addr(event.id)).data(), rdma_event_str(event.event), event.status);
}

/// The next event, or nullptr.
rdma_cm_event *next_event() noexcept {
    const fork_guard guard;
    rdma_cm_event *event = nullptr;
    return rdma_get_cm_event(event_thread::channel(), &event) == 0 ? event : nullptr;
}

struct event_channel_watcher final : fd_watcher {
    /// Reads one event, so that timers and other watchers do not wait for all.
    void handle_readable() noexcept override {
        rdma_cm_event *const event = next_event();
        if (event == nullptr)
            return;
        if (is_logged(log_type::connections))
            log_event(*event);
        // A connection request has its own id, but is handled by the listening one.
        rdma_cm_id *const cm_id =
            event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? event->listen_id : event->id;
        // Relaxed: wait_for_callback() orders it after a change by stop_handling().
        void *const context = std::atomic_ref(cm_id->context).load(std::memory_order_relaxed);
        // A request to a listener that stays, see destroy_id(): its peer gets a reject.
        rdma_cm_id *const refused_id =
            context == nullptr && event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? event->id
                                                                                : nullptr;
        if (context != nullptr)
            static_cast<cm_handler *>(context)->handle_event(*event);
        rdma_ack_cm_event(event);
        if (refused_id != nullptr) {
            reject(refused_id, reject_by_provider);
            destroy_id(refused_id);
        }
    }
};

} // namespace

fd_watcher &channel_watcher() noexcept {
    static constinit event_channel_watcher watcher;
    return watcher;
}

int create_id(cm_handler &handler, rdma_port_space space, rdma_cm_id *&id) noexcept {
    const fork_guard guard;
    return rdma_create_id(event_thread::channel(), &id, &handler, space) == 0 ? 0 : errno;
}

namespace {

/// Of an id that stays: on return, its handler is not called any more, unless it is the caller.
void stop_handling(rdma_cm_id &id) noexcept {
    std::atomic_ref(id.context).store(nullptr, std::memory_order_relaxed);
    event_thread::wait_for_callback(channel_watcher());
}

} // namespace

void destroy_id(rdma_cm_id *id) noexcept {
    const bool blocks =
        id->verbs != nullptr && id->verbs->device->transport_type == IBV_TRANSPORT_IWARP;
    {
        const fork_guard guard(blocks ? fork_guard::blocking : fork_guard::brief);
        if (rdma_destroy_id(id) == 0)
            return;
    }
    log(log_type::errors, "rdma_destroy_id: %s; its id stays until the process ends",
        std::strerror(errno));
    stop_handling(*id);
}

std::uint16_t local_port(const dapl_ep &ep) noexcept {
    return ep.conn != nullptr ? ntohs(rdma_get_src_port(ep.conn->id)) : std::uint16_t{0};
}

/// Maps a connection qualifier to a TCP port as OFED does.
std::uint16_t conn_qual_to_port(DAT_CONN_QUAL qualifier) noexcept {
    return static_cast<std::uint16_t>(qualifier <= 0xffff ? qualifier : qualifier % 32001 + 33534);
}

/// Also sets the traffic class, which goes to the peer with the request.
int resolve_address(const dapl_ep &ep, rdma_cm_id *id, address &remote) noexcept {
    const settings &settings = get_settings();
    auto traffic_class = static_cast<std::uint8_t>(settings.traffic_class);
    if (settings.traffic_class != AS_ROUTE &&
        rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &traffic_class,
                        sizeof traffic_class) != 0)
        return errno;
    device &dev = *ep.ia->dev;
    const auto resolve = [&] {
        const address *const local = dev.find_address(remote.sa.sa_family);
        // A named address of the other family is refused by rdma_cm.
        address source = local != nullptr ? *local : dev.named_address;
        return rdma_resolve_addr(id, source.sa.sa_family != AF_UNSPEC ? &source.sa : nullptr,
                                 &remote.sa, settings.arp_timeout_ms) == 0
                   ? 0
                   : errno;
    };
    const int error = resolve();
    return error == EADDRNOTAVAIL && dev.update_addresses() == 0 ? resolve() : error;
}

void destroy_conn(connection *conn) noexcept {
    delete conn;
}

/// Waits for the thread in rdma_connect, and until the CM events of the ids are handled.
connection::~connection() {
    call.finish();
    // Old ids first: the event thread may be handling an event of one, and then use the current id.
    for (rdma_cm_id *const old_id : old_ids)
        if (old_id != nullptr)
            destroy_id(old_id);
    if (id != nullptr)
        destroy_id(id);
}

/// In the event thread. Without an EP the connection is a request that is not accepted yet, or it
/// was detached.
void connection::handle_event(rdma_cm_event &event) noexcept {
    if (event.event == RDMA_CM_EVENT_DISCONNECTED || event.event == RDMA_CM_EVENT_TIMEWAIT_EXIT ||
        event.event == RDMA_CM_EVENT_DEVICE_REMOVAL)
        complete_dreq(*this);
    dapl_ep *const owner = ep.load(std::memory_order_acquire);
    if (owner != nullptr) {
        handle_conn_event(*owner, *this, event);
        return;
    }
    switch (event.event) {
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_DISCONNECTED:
        peer_gone.store(true, std::memory_order_release);
        break;
    default:
        break;
    }
}

} // namespace coherdma::dapl::cm

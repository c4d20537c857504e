// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The active side: resolves the address, then the route, then sends the connection request.

#include "connection.hpp"

#include "dapl/api.hpp"
#include "dapl/core/deadline.hpp"
#include "dapl/core/log.hpp"
#include "dapl/core/settings.hpp"
#include "dapl/ep/ended_attempt.hpp"
#include "dapl/event/evd.hpp"
#include "dapl/ia/ia.hpp"
#include "dapl/memory/pz.hpp"
#include "ud.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

namespace coherdma::dapl::cm {

namespace {

constexpr int consumer_reject = 28; ///< the IB CM's reject reason 28

/// Saves the private data received from the peer, without the first `skip` bytes.
void save_peer_data(connection &conn, const rdma_conn_param &param, std::size_t skip = 0) noexcept {
    const std::size_t size = param.private_data != nullptr ? param.private_data_len : 0;
    conn.peer_data_len = static_cast<std::uint8_t>(size > skip ? size - skip : 0);
    if (conn.peer_data_len != 0)
        std::memcpy(conn.peer_data.data(), static_cast<const char *>(param.private_data) + skip,
                    conn.peer_data_len);
}

/// Whether the peer's consumer rejected the request, rather than its provider or system. Saves the
/// private data, unless the connection has those of the reply. With the EP's lock held.
bool rejected_by_consumer(const dapl_ep &ep, connection &conn,
                          const rdma_cm_event &event) noexcept {
    const rdma_conn_param &param = event.param.conn;
    std::uint32_t word = 0;
    if (param.private_data != nullptr && param.private_data_len >= sizeof word)
        std::memcpy(&word, param.private_data, sizeof word);
    const bool marked = word == htonl(reject_by_consumer);
    if (word == htonl(reject_by_provider))
        return false;
    if (conn.state == conn_state::connecting)
        save_peer_data(conn, param, marked ? sizeof word : 0);
    // The iWARP CM reports an errno instead of a reason: ECONNRESET, the peer was listening.
    return marked ||
           (ep.ia->dev->iwarp ? event.status == -ECONNRESET : event.status == consumer_reject);
}

/// Sends the connection request. 0 or an errno; on iWARP a thread may still be sending, and report
/// an error later.
int send_request(dapl_ep &ep, connection &conn) noexcept {
    if (!ep.ia->dev->is_device_of(*conn.id)) // the route is one of another device
        return EHOSTUNREACH;
    rdma_conn_param param = {};
    param.private_data = conn.private_data.data();
    param.private_data_len = conn.private_data_len;
    param.responder_resources = static_cast<std::uint8_t>(std::min(ep.attr.max_rdma_read_in, 255));
    param.initiator_depth = static_cast<std::uint8_t>(std::min(ep.attr.max_rdma_read_out, 255));
    param.flow_control = 1;
    param.retry_count = get_settings().ack_retry;
    param.rnr_retry_count = get_settings().rnr_retry;
    param.srq = ep.has_srq;
    param.qp_num = ep.qp->qp_num;
    if (ep.ia->dev->iwarp && conn.call.start(param)) // a thread calls rdma_connect, which blocks
        return 0;
    return rdma_connect(conn.id, &param) == 0 ? 0 : errno;
}

int resolve_route(connection &conn) noexcept {
    return rdma_resolve_route(conn.id, get_settings().route_timeout_ms) == 0 ? 0 : errno;
}

/// Connects again after rdma_connect failed with `error`: rdma_cm chooses a port that no other id
/// has, but for software iWARP (siw) a socket or a TCP connection in TIME_WAIT may have it. A new
/// id gets another port. The old id is kept, as the caller may be handling its event.
int retry_with_new_id(dapl_ep &ep, connection &conn, int error) noexcept {
    const auto free_entry = std::find(conn.old_ids.begin(), conn.old_ids.end(), nullptr);
    if (free_entry == conn.old_ids.end())
        return error;
    rdma_cm_id *new_id = nullptr;
    if (const int create_error = create_id(conn, RDMA_PS_TCP, new_id))
        return create_error;
    bool is_current;
    {
        const std::lock_guard guard(ep.lock);
        is_current = ep.conn == &conn;
        if (is_current)
            *free_entry = std::exchange(conn.id, new_id);
    }
    if (is_current)
        return resolve_address(ep, conn.id, ep.remote);
    destroy_id(new_id); // Another thread has ended the attempt, with the old id only.
    return 0;
}

/// Ends an attempt for an error of a call, which no event of rdma_cm tells. error: 0 for none.
void end_attempt(dapl_ep &ep, connection &conn, int error) noexcept {
    if (error == 0)
        return;
    const std::lock_guard guard(ep.lock);
    log(log_type::connections, "connection to %s: %s", to_text(ep.remote.sa).data(),
        std::strerror(error));
    const bool is_rejected = error == ECONNREFUSED || error == ECONNRESET;
    step_locked(ep, conn, is_rejected ? conn_event::rejected : conn_event::unreachable);
}

/// Handles an error of rdma_connect.
void handle_request_error(dapl_ep &ep, connection &conn, int error) noexcept {
    if (error == EADDRINUSE || error == EADDRNOTAVAIL)
        error = retry_with_new_id(ep, conn, error);
    end_attempt(ep, conn, error);
}

} // namespace

/// Calls rdma_connect in a new thread; the event thread handles an error. False: no thread can be
/// created.
bool connect_call::start(const rdma_conn_param &conn_param) noexcept {
    finish(); // of the thread that an earlier id of the connection had
    param = conn_param;
    in_progress.store(true, std::memory_order_relaxed);
    pthread_t thread;
    if (event_thread::create_thread(thread_main, this, thread) != 0) {
        in_progress.store(false, std::memory_order_relaxed);
        return false;
    }
    pthread_detach(thread);
    return true;
}

/// Blocks in rdma_connect; has the event thread handle an error.
void *connect_call::thread_main(void *arg) noexcept {
    auto &call = *static_cast<connect_call *>(arg);
    pthread_setname_np(pthread_self(), "coherdma-conn");
    call.error = rdma_connect(call.conn.id, &call.param) == 0 ? 0 : errno;
    if (call.error != 0)
        event_thread::schedule(call, 0);
    // Now finish() may return and the connection be deleted; notify_all uses only the address.
    // seq_cst: it loads the number of sleepers, see lock.cpp.
    call.in_progress.store(false);
    call.in_progress.notify_all();
    return nullptr;
}

void connect_call::finish() noexcept {
    // acquire: sees what the thread wrote.
    while (in_progress.load(std::memory_order_acquire))
        in_progress.wait(true, std::memory_order_relaxed);
    event_thread::cancel(*this);
}

/// Called by the event thread: thread_main has scheduled this, as rdma_connect failed.
void connect_call::run() noexcept {
    if (dapl_ep *const ep = conn.ep.load(std::memory_order_acquire))
        handle_request_error(*ep, conn, error);
}

/// Posts a connection event to the EP's connection EVD, with the private data received from the
/// peer of conn. The caller holds the EP's lock.
void post_conn_event(dapl_ep &ep, DAT_EVENT_NUMBER number, const connection *conn) noexcept {
    // The EVD may belong to another IA, which may be closed.
    const auto evd = lookup<dapl_evd>(ep.connect_evd);
    if (!evd)
        return;
    DAT_EVENT event = {};
    event.event_number = number;
    auto &data = event.event_data.connect_event_data;
    data.ep_handle = &ep;
    if (conn != nullptr && conn->peer_data_len != 0) {
        data.private_data_size = conn->peer_data_len;
        data.private_data = const_cast<unsigned char *>(conn->peer_data.data());
    }
    evd->post(event);
}

/// Called by the event thread for each CM event of an EP's connection: takes the next step of the
/// active side, or ends the attempt or the connection.
void handle_conn_event(dapl_ep &ep, connection &conn, rdma_cm_event &event) noexcept {
    int error = 0;
    switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        error = resolve_route(conn);
        break;
    case RDMA_CM_EVENT_ADDR_ERROR:
        error = conn.addr_retries++ < get_settings().arp_retries && event.status == -ETIMEDOUT
                    ? resolve_address(ep, conn.id, ep.remote)
                    : EHOSTUNREACH;
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        return handle_request_error(ep, conn, send_request(ep, conn));
    case RDMA_CM_EVENT_ROUTE_ERROR:
        error = conn.route_retries++ < get_settings().route_retries ? resolve_route(conn)
                                                                    : EHOSTUNREACH;
        break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
        save_peer_data(conn, event.param.conn);
        if (qp_to_rts(ep, conn) == 0 && rdma_establish(conn.id) == 0)
            return step(ep, conn, conn_event::established);
        reject(conn.id, reject_by_provider);
        return step(ep, conn, conn_event::failed);
    case RDMA_CM_EVENT_ESTABLISHED:
        if (conn.active)
            save_peer_data(conn, event.param.conn);
        else
            conn.peer_data_len = 0; // of the request, which the consumer has read
        return step(ep, conn, conn_event::established);
    case RDMA_CM_EVENT_REJECTED: {
        const std::lock_guard guard(ep.lock);
        step_locked(ep, conn, // detaches nothing
                    rejected_by_consumer(ep, conn, event) ? conn_event::rejected_by_consumer
                                                          : conn_event::rejected);
        return;
    }
    case RDMA_CM_EVENT_UNREACHABLE:
        return step(ep, conn, conn_event::unreachable);
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        return step(ep, conn, conn_event::failed);
    case RDMA_CM_EVENT_DISCONNECTED:
        // The peer disconnects, so it was connected: the RTU was lost or is late.
        if (!conn.active) {
            conn.peer_data_len = 0;
            step(ep, conn, conn_event::established);
        }
        rdma_disconnect(conn.id); // Sends the DREP, where the transport has one.
        return step(ep, conn, conn_event::peer_disconnected);
    default:
        return;
    }
    end_attempt(ep, conn, error);
}

/// Creates the connection of the EP and resolves the address; handle_conn_event continues.
DAT_RETURN start_connect(dapl_ep &ep, const address &addr, DAT_CONN_QUAL qualifier,
                         DAT_TIMEOUT timeout, const void *data, DAT_COUNT size) noexcept {
    std::unique_ptr<connection> new_conn(new (std::nothrow) connection);
    if (!new_conn)
        return no_resources(DAT_RESOURCE_MEMORY);
    connection &conn = *new_conn;
    // Now, since the calls that end the attempt cannot fail.
    if (ep.ia->dev->iwarp && !(conn.ended = ended_attempt::create(&conn)))
        return no_resources(DAT_RESOURCE_MEMORY);
    conn.active = true;
    conn.private_data_len = static_cast<std::uint8_t>(size);
    if (size != 0)
        std::memcpy(conn.private_data.data(), data, static_cast<std::size_t>(size));
    int error = create_id(conn, RDMA_PS_TCP, conn.id);
    if (error != 0)
        return from_errno(error, DAT_RESOURCE_TEP);
    {
        const std::lock_guard guard(ep.lock);
        if (ep.current_state() != DAT_EP_STATE_UNCONNECTED)
            return invalid_state(state_subtype(ep.current_state()));
        ep.remote = addr;
        ep.remote_qual = qualifier;
        conn.ep.store(&ep, std::memory_order_release);
        ep.conn = new_conn.release();
        ep.state.store(DAT_EP_STATE_ACTIVE_CONNECTION_PENDING, std::memory_order_release);
        if (timeout != DAT_TIMEOUT_INFINITE) {
            conn.deadline_ns = dat_deadline::now_ns() + std::int64_t{timeout} * 1000;
            event_thread::schedule(conn, conn.deadline_ns);
        }
        // Under the lock: once it is released, another thread may end the attempt.
        error = resolve_address(ep, conn.id, ep.remote);
    }
    end_attempt(ep, conn, error); // A call that fails at once is an event, too.
    return DAT_SUCCESS;
}

} // namespace coherdma::dapl::cm

namespace coherdma::dapl {

namespace {

/// argument: the number of the parameter `size` in DAT's call; `data` follows it.
DAT_RETURN check_private_data(unsigned argument, DAT_COUNT size, const void *data) noexcept {
    if (size < 0 || size > max_private_data)
        return invalid_parameter(argument);
    if (size > 0 && data == nullptr)
        return invalid_parameter(argument + 1);
    return DAT_SUCCESS;
}

/// The caller holds the EP's setup_lock.
DAT_RETURN check_connect(dapl_ep &ep) noexcept {
    if (ep.connect_evd == nullptr)
        return invalid_handle(DAT_INVALID_HANDLE_EVD_CONN);
    // A datagram EP may resolve any number of peers.
    if (ep.current_state() != DAT_EP_STATE_UNCONNECTED && !ep.is_ud)
        return invalid_state(state_subtype(ep.current_state()));
    // No QP: dat_ep_modify could create neither the new one nor the old one again.
    if (ep.pz == nullptr || ep.qp == nullptr)
        return invalid_state(DAT_INVALID_STATE_EP_NOTREADY);
    return DAT_SUCCESS;
}

} // namespace

DAT_RETURN ep_connect(DAT_EP_HANDLE ep_handle, DAT_IA_ADDRESS_PTR remote, DAT_CONN_QUAL qualifier,
                      DAT_TIMEOUT timeout, DAT_COUNT size, const DAT_PVOID data, DAT_QOS qos,
                      DAT_CONNECT_FLAGS flags) noexcept {
    const auto ep = handle_to<dapl_ep>(ep_handle);
    if (!ep)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    if (!address::is_ip(remote))
        return invalid_parameter(2);
    address addr = to_address(remote);
    if (cm::conn_qual_to_port(qualifier) == 0)
        return invalid_parameter(3);
    if (timeout == 0)
        return invalid_parameter(4);
    DAT_RETURN result = check_private_data(5, size, data);
    if (result != DAT_SUCCESS)
        return result;
    if (qos != DAT_QOS_BEST_EFFORT || flags != DAT_CONNECT_DEFAULT_FLAG)
        return dat_error(DAT_MODEL_NOT_SUPPORTED);
    const std::lock_guard setup_guard(ep->setup_lock);
    result = check_connect(*ep);
    if (result != DAT_SUCCESS)
        return result;
    addr.port() = htons(cm::conn_qual_to_port(qualifier));
    if (ep->is_ud)
        return cm::ud_connect(*ep, addr, timeout, data, size);
    return cm::start_connect(*ep, addr, qualifier, timeout, data, size);
}

DAT_RETURN ep_common_connect(DAT_EP_HANDLE ep_handle, DAT_IA_ADDRESS_PTR remote,
                             DAT_TIMEOUT timeout, DAT_COUNT size, const DAT_PVOID data) noexcept {
    const auto ep = handle_to<dapl_ep>(ep_handle);
    if (!ep)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    if (!address::is_ip(remote))
        return invalid_parameter(2);
    address addr = to_address(remote);
    if (addr.port() == 0)
        return invalid_parameter(2);
    if (timeout == 0)
        return invalid_parameter(3);
    DAT_RETURN result = check_private_data(4, size, data);
    if (result != DAT_SUCCESS)
        return result;
    if (ep->is_ud)
        return dat_error(DAT_MODEL_NOT_SUPPORTED);
    const std::lock_guard setup_guard(ep->setup_lock);
    result = check_connect(*ep);
    if (result != DAT_SUCCESS)
        return result;
    return cm::start_connect(*ep, addr, ntohs(addr.port()), timeout, data, size);
}

namespace {

/// The peer's address and qualifier of a connected EP.
DAT_RETURN get_peer(dapl_ep &ep, address &addr, DAT_CONN_QUAL &qualifier) noexcept {
    const std::lock_guard guard(ep.lock);
    if (ep.current_state() != DAT_EP_STATE_CONNECTED)
        return invalid_state(state_subtype(ep.current_state()));
    // Only the active side knows the port at which the peer listens.
    if (ep.conn == nullptr || !ep.conn->active)
        return invalid_state(DAT_INVALID_STATE_EP_NOTREADY);
    addr = ep.remote;
    qualifier = ep.remote_qual;
    return DAT_SUCCESS;
}

} // namespace

DAT_RETURN ep_dup_connect(DAT_EP_HANDLE ep_handle, DAT_EP_HANDLE other_handle, DAT_TIMEOUT timeout,
                          DAT_COUNT size, const DAT_PVOID data, DAT_QOS qos) noexcept {
    const auto ep = handle_to<dapl_ep>(ep_handle);
    if (!ep)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    const auto other = ep->ia->find<dapl_ep>(other_handle);
    if (!other)
        return invalid_handle(DAT_INVALID_HANDLE_EP);
    if (timeout == 0)
        return invalid_parameter(3);
    DAT_RETURN result = check_private_data(4, size, data);
    if (result != DAT_SUCCESS)
        return result;
    if (qos != DAT_QOS_BEST_EFFORT || ep->is_ud)
        return dat_error(DAT_MODEL_NOT_SUPPORTED);
    address addr;
    DAT_CONN_QUAL qualifier = 0;
    result = get_peer(*other, addr, qualifier);
    if (result != DAT_SUCCESS)
        return result;
    const std::lock_guard setup_guard(ep->setup_lock);
    result = check_connect(*ep);
    if (result != DAT_SUCCESS)
        return result;
    return cm::start_connect(*ep, addr, qualifier, timeout, data, size);
}

} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Connections: an rdma_cm_id beside an EP's QP, from dat_ep_connect or the peer's request until the
// EP is reset or freed.
//
// The event thread handles all CM events, and rdma_destroy_id waits until they are acknowledged. To
// end a connection: detach it from its EP, then destroy the id without holding a lock. So an id's
// context stays valid until the event thread has acknowledged the event.
#pragma once

#include "dapl/core/limits.hpp"
#include "dapl/ep/ep.hpp"
#include "dapl/event/upcalls.hpp"

#include <cstdint>
#include <memory>
#include <rdma/rdma_cma.h>

namespace coherdma::dapl::cm {

/// The context of an rdma_cm_id: handles its events.
struct cm_handler {
    virtual void handle_event(rdma_cm_event &event) noexcept = 0;

  protected:
    ~cm_handler() = default;
};

/// Creates an rdma_cm_id whose events the handler gets. 0 or an errno.
int create_id(cm_handler &handler, rdma_port_space space, rdma_cm_id *&id) noexcept;
/// Waits until no event of the id is being handled; on iWARP perhaps until the peer answers.
void destroy_id(rdma_cm_id *id) noexcept;

struct connection;

/// Calls rdma_connect in a thread of its own: on iWARP it blocks until TCP is connected, or for
/// minutes if all packets are lost. The event thread handles an error.
struct connect_call final : timer_task {
    explicit connect_call(connection &owner) noexcept
        : conn(owner) {}
    /// False: no thread can be created.
    bool start(const rdma_conn_param &conn_param) noexcept;
    /// Waits until the thread has ended, and the event thread does not handle its error.
    void finish() noexcept;
    void run() noexcept override;

    static void *thread_main(void *arg) noexcept;

    connection &conn;
    rdma_conn_param param = {};
    int error = 0;
    std::atomic<bool> in_progress = false;
};

/// The states of a connection that has an EP, and what happens to it: the columns and rows of the
/// table in udapl/README.md, from which state.cpp is written.
enum class conn_state : std::uint8_t {
    connecting,    ///< active side: until the peer's reply
    accepting,     ///< passive side: until the peer has the reply
    connected,     //
    draining,      ///< a graceful disconnect waits until the EP's requests have completed
    disconnecting, ///< waits for the DREP
    ended,         ///< no event has an effect any more
};
enum class conn_event : std::uint8_t {
    established,          //
    rejected_by_consumer, //
    rejected,             ///< by the peer's provider or system
    unreachable,          //
    failed,               ///< an error of rdma_cm, or the device is removed
    qp_error,             ///< a work request has failed, or the device says so
    timed_out,            ///< dat_ep_connect's timeout, or no DREP has arrived
    abrupt_call,          ///< dat_ep_disconnect
    graceful_call,        ///< dat_ep_disconnect
    drained,              ///< the requests before graceful_call have completed
    peer_disconnected,    ///< or the DREP has arrived
};

struct connection final : cm_handler, timer_task {
    ~connection();
    void handle_event(rdma_cm_event &event) noexcept override;
    void run() noexcept override; ///< its timer

    // Under the EP's lock.
    conn_state state = conn_state::connecting;
    bool qp_in_error = false;     ///< before the connection was established
    bool dreq_pending = false;    ///< the timer sends the DREQ, also without an EP
    std::int64_t deadline_ns = 0; ///< of the timer, as dat_deadline::now_ns()
    /// How long the DREP is waited for: 4.096 us << ack_timeout; 0: until rdma_cm gives up. That of
    /// the QP, or on iWARP, which has none, half a second, as rdma_cm's on Ethernet.
    std::uint8_t ack_timeout = 17;

    rdma_cm_id *id = nullptr;                 ///< replaced by the event thread, under the EP's lock
    std::array<rdma_cm_id *, 7> old_ids = {}; ///< replaced because their TCP port was in use
    std::atomic<dapl_ep *> ep = nullptr;      ///< nullptr: a pending request, or detached
    bool active = false;                      ///< active side: this side called dat_ep_connect
    std::atomic<bool> peer_gone = false;      ///< the peer gave up before dat_cr_accept
    int addr_retries = 0, route_retries = 0;
    std::uint8_t responder_resources = 0, initiator_depth = 0; ///< of the peer's request
    std::uint8_t private_data_len = 0, peer_data_len = 0;
    std::array<unsigned char, max_private_data> private_data = {}; ///< sent with our request
    std::array<unsigned char, 256> peer_data = {};                 ///< private data received
    connect_call call{*this};             ///< iWARP: the thread in rdma_connect
    std::shared_ptr<ended_attempt> ended; ///< for an attempt that may block when it is ended

    // Under the lock of dreq.cpp.
    enum : std::uint8_t { dreq_none, dreq_sent, dreq_done } dreq = dreq_none;
    bool waits_for_drep = false;    ///< waits for the DREP without an EP
    std::int64_t dreq_deadline = 0; ///< as dat_deadline::now_ns()
};

/// The first word of a reject's private data: the consumer called dat_cr_reject (OFED's value), or
/// the provider has no use for the request (ours).
inline constexpr std::uint32_t reject_by_consumer = 2U << 24 | 2U << 8,
                               reject_by_provider = reject_by_consumer | 1;
/// Rejects a request; the private data are code (reject_by_...) and the consumer's data.
void reject(rdma_cm_id *id, std::uint32_t code, const void *data = nullptr,
            std::size_t size = 0) noexcept;

/// Maps a connection qualifier to a TCP port as OFED does, so that the two interoperate.
std::uint16_t conn_qual_to_port(DAT_CONN_QUAL qualifier) noexcept;

/// Moves the QP to RTS. 0 or an errno.
int qp_to_rts(dapl_ep &ep, connection &conn) noexcept;
/// Starts to resolve the peer's address, from the IA's address of the same family. 0 or an errno.
int resolve_address(const dapl_ep &ep, rdma_cm_id *id, address &remote) noexcept;

/// Posts a connection event to the EP's connection EVD, with the peer's private data of conn. The
/// caller holds the EP's lock, under which the state changes, so that events have the order of the
/// states.
void post_conn_event(dapl_ep &ep, DAT_EVENT_NUMBER number,
                     const connection *conn = nullptr) noexcept;

/// A connection that has no EP any more.
struct detached_conn {
    connection *conn = nullptr;             ///< nullptr: there was none
    std::shared_ptr<ended_attempt> attempt; ///< if destroying it may block (iWARP)

    /// On return no event of the connection is being handled, except one that the caller handles.
    void wait_for_handlers() const noexcept;
    /// After wait_for_handlers(). A thread of its own does it where that may block.
    void destroy() const noexcept;
};

/// An event that is no end of an attempt by this side takes the connection to its next state, as
/// the table says, and tells the EP's consumer. No effect, unless it is still the EP's connection;
/// it may have been deleted.
void step(dapl_ep &ep, connection &conn, conn_event event) noexcept;
/// The same for any event, under the EP's lock. The caller releases that and then destroys what is
/// returned: an attempt that this side gives up.
detached_conn step_locked(dapl_ep &ep, connection &conn, conn_event event) noexcept;
/// Detaches the EP's connection, if any, under the EP's lock: no event or timer of it reaches the
/// EP any more, except those that are being handled.
detached_conn detach(dapl_ep &ep) noexcept;

/// Disconnects: sends a DREQ where the transport has one. False: rdma_disconnect failed.
bool send_dreq(connection &conn) noexcept;
/// DREP or DREQ received, TIMEWAIT expired, or device removed. Called by the event thread.
void complete_dreq(connection &conn) noexcept;
/// Releases a detached connection. The rdma_cm_id is kept until the DREP, at most 8 s from the
/// DREQ.
void release_conn(connection *conn) noexcept;
/// The timer of a connection without an EP that was kept for the DREP: sends a DREQ that is
/// pending, or deletes the connection.
void delete_after_drep(connection &conn) noexcept;
/// IBV_EVENT_COMM_EST: data arrived before the connection was established.
void handle_comm_est(dapl_ep &ep) noexcept;

/// Starts connecting, for dat_ep_connect and its variants; handle_conn_event continues.
DAT_RETURN start_connect(dapl_ep &ep, const address &addr, DAT_CONN_QUAL qualifier,
                         DAT_TIMEOUT timeout, const void *data, DAT_COUNT size) noexcept;
void handle_conn_event(dapl_ep &ep, connection &conn, rdma_cm_event &event) noexcept;

} // namespace coherdma::dapl::cm

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Disconnect requests. A DREQ may be lost; the kernel sends it again while the rdma_cm_id exists.
// The consumer does not wait for that: when an EP is freed or reset, its connection is kept without
// an EP until the DREP arrives or a timeout expires, or the peer would never see the disconnection.

#include "connection.hpp"
#include "dapl/core/deadline.hpp"

#include <new>
#include <utility>

namespace coherdma::dapl::cm {

namespace {

// Covers one retransmission of the DREQ: 4.1 s, on the active side plus 0.5 s (kernel 7.2) or 2 s
// (6.1), and the kernel's timers may be late by an eighth.
constexpr std::int64_t drep_timeout_ns = 8'000'000'000;

struct {
    mutex lock;                                          ///< of each connection's dreq fields
    std::atomic<std::uint32_t> num_waiting_for_drep = 0; ///< connections kept without an EP
} dreq_state;

} // namespace

/// Disconnects, with a DREQ where the transport has one. False: rdma_disconnect failed.
bool send_dreq(connection &conn) noexcept {
    // iWARP closes its TCP connection, which is reliable.
    const bool dreq_may_be_lost =
        conn.id->verbs != nullptr && conn.id->verbs->device->transport_type != IBV_TRANSPORT_IWARP;
    {
        const std::lock_guard guard(dreq_state.lock); // Before the DREP can arrive.
        if (conn.dreq == conn.dreq_none && dreq_may_be_lost)
            conn.dreq = conn.dreq_sent;
        conn.dreq_deadline = dat_deadline::now_ns() + drep_timeout_ns;
    }
    if (rdma_disconnect(conn.id) == 0)
        return true;
    const std::lock_guard guard(dreq_state.lock);
    conn.dreq = conn.dreq_done;
    return false;
}

/// In the event thread: the DREP or the peer's DREQ was received, or none will be. run() deletes a
/// connection that was kept for it.
void complete_dreq(connection &conn) noexcept {
    const std::lock_guard guard(dreq_state.lock);
    conn.dreq = conn.dreq_done;
    if (conn.waits_for_drep)
        event_thread::schedule(conn, dat_deadline::now_ns());
}

namespace {

/// Keeps a connection whose EP was freed or reset: run() deletes it when the DREP arrives, or at
/// dreq_deadline. False: neither a DREQ nor a DREP is pending.
bool keep_until_drep(connection &conn) noexcept {
    const std::lock_guard guard(dreq_state.lock);
    conn.dreq_pending = conn.dreq_pending && conn.dreq == conn.dreq_none;
    if (conn.dreq != conn.dreq_sent && !conn.dreq_pending)
        return false;
    conn.waits_for_drep = true;
    ++dreq_state.num_waiting_for_drep;
    event_thread::schedule(conn, conn.dreq_pending ? conn.deadline_ns : conn.dreq_deadline);
    return true;
}

} // namespace

/// Deletes a connection that was detached from its EP, now or when the DREP has arrived.
void release_conn(connection *conn) noexcept {
    if (!keep_until_drep(*conn))
        delete conn; // rdma_destroy_id waits until the event thread has handled its events.
}

/// In the event thread, scheduled by keep_until_drep() and complete_dreq().
void delete_after_drep(connection &conn) noexcept {
    bool needs_dreq = false;
    {
        // The scheduling function has left its critical section.
        const std::lock_guard guard(dreq_state.lock);
        if (!conn.waits_for_drep) // The timer was set while the connection had an EP.
            return;
        needs_dreq = std::exchange(conn.dreq_pending, false) && conn.dreq == conn.dreq_none;
    }
    if (needs_dreq && send_dreq(conn))
        return event_thread::schedule(conn, conn.dreq_deadline);
    delete &conn;
    // seq_cst: notify_all loads the number of sleepers, see lock.cpp.
    dreq_state.num_waiting_for_drep.fetch_sub(1);
    dreq_state.num_waiting_for_drep.notify_all();
}

bool waits_for_dreps() noexcept {
    return dreq_state.num_waiting_for_drep.load(std::memory_order_acquire) != 0;
}

/// Waits until all connections without an EP are deleted, before the event thread ends.
void wait_for_dreps() noexcept {
    // acquire: the event thread has finished with the connections.
    for (std::uint32_t count;
         (count = dreq_state.num_waiting_for_drep.load(std::memory_order_acquire)) != 0;)
        dreq_state.num_waiting_for_drep.wait(count, std::memory_order_relaxed);
}

void dreq_atfork_child() noexcept {
    dreq_state.num_waiting_for_drep.store(0, std::memory_order_relaxed);
    new (&dreq_state.lock) mutex;
}

} // namespace coherdma::dapl::cm

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// An endpoint (EP): a QP and its connection. The fields that posting uses come first.
#pragma once

#include "cookie_ring.hpp"
#include "dapl/core/object.hpp"
#include "dapl/core/unique_handle.hpp"
#include "dapl/event/event_thread.hpp"
#include "dapl/ia/device.hpp"

#include <coherdma/coherdma.h>
#include <coherdma/experimental.h>
#include <cstdint>

namespace coherdma::dapl {

struct dapl_evd;
struct dapl_pz;
struct dapl_srq;
struct dapl_ep;
class ended_attempt;

// What this folder calls in cm/.
namespace cm {

struct connection;
struct ud_peer;

/// The QP is in error: ends the connection. In the event thread.
void handle_broken(dapl_ep &ep) noexcept;
/// Ends the EP's connection, if any, without an event.
void abort_conn(dapl_ep &ep) noexcept;
/// Ends all resolutions of a UD EP. The caller has its setup_lock, or the EP was removed.
void ud_free_peers(dapl_ep &ep) noexcept;
/// The TCP port of the EP's connection; 0 without one. Called with the EP's lock.
std::uint16_t local_port(const dapl_ep &ep) noexcept;

} // namespace cm

/// Calls handle_broken in the event thread.
struct broken_task final : timer_task {
    explicit broken_task(dapl_ep &owner) noexcept
        : ep(owner) {}
    void run() noexcept override { cm::handle_broken(ep); }

    dapl_ep &ep;
};

/// The objects that an EP refers to; nullptr: none.
struct ep_refs {
    /// Drops the references.
    void drop_refs() const noexcept;

    dapl_pz *pz = nullptr;
    dapl_evd *recv_evd = nullptr, *request_evd = nullptr, *connect_evd = nullptr;
    dapl_srq *srq = nullptr;
};

struct dapl_ep : object, ep_refs {
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_EP;
    static constexpr DAT_UINT32 bad_handle = DAT_INVALID_HANDLE_EP;
    explicit dapl_ep(dapl_ia &parent) noexcept;
    ~dapl_ep();

    DAT_EP_STATE current_state() const noexcept { return state.load(std::memory_order_acquire); }
    /// The EP is connected, or was: then requests are flushed.
    bool can_post_requests() const noexcept {
        return static_cast<unsigned>(current_state() - DAT_EP_STATE_CONNECTED) <= 2;
    }
    static_assert(DAT_EP_STATE_DISCONNECT_PENDING == DAT_EP_STATE_CONNECTED + 1 &&
                  DAT_EP_STATE_DISCONNECTED == DAT_EP_STATE_CONNECTED + 2);

    dapl_pz *current_pz() noexcept {
        const std::lock_guard guard(lock);
        return pz;
    }

    /// Opens the request ring; called before the state changes to one that accepts requests.
    void enable_requests() noexcept;
    /// The QP is in error: has the event thread end the connection. May be called with an EVD's
    /// lock.
    void schedule_broken() noexcept;
    /// The EP takes no more receives from the SRQ: posts an asynchronous event, once per
    /// connection. Called with the lock.
    void report_last_wqe() noexcept;

    std::atomic<DAT_EP_STATE> state = DAT_EP_STATE_UNCONNECTED;
    ibv_qp *qp = nullptr; ///< changes under the locks of both rings
    // Atomic: dat_ep_modify may change them during a post, which the device then checks.
    std::atomic<DAT_COUNT> max_request_iov = 0, max_recv_iov = 0, max_read_iov = 0,
                           max_write_iov = 0;
    std::atomic<std::uint32_t> max_inline = 0;
    /// The device's limit. The EP attributes' max_message_size is not enforced: OFED's dtest posts
    /// longer messages.
    std::uint32_t max_message = 0;
    bool is_ud = false; ///< the service type, which does not change
    std::atomic<bool> has_srq = false;
    cookie_ring requests, receives;

    /// Of calls that create or destroy the QP, change ep_refs and attributes, or need them
    /// unchanged: reset, modify, and the start of a connection. Taken before lock; not by the event
    /// thread, for which such calls wait.
    mutex setup_lock;

    mutex lock; ///< of changes of state, of ep_refs, and of the fields that follow
    DAT_EP_ATTR attr = {};
    cm::connection *conn = nullptr;
    cm::ud_peer *ud_peers = nullptr; ///< resolved peers of a datagram EP
    address remote = {};
    DAT_CONN_QUAL remote_qual = 0;
    bool last_wqe_reported = false; ///< for this connection
    std::atomic<bool> suppress_events =
        false; ///< drops completions with errors: the QP is being destroyed
    /// Under requests.lock: what drain_requests waits for, and the last marker; 0: none.
    std::uint64_t drain_seq = 0, marker_seq = 0;
    std::atomic<bool> request_failed = false;  ///< otherwise than by a flush
    std::atomic<DAT_COUNT> srq_undequeued = 0; ///< see watermark.hpp
    std::atomic<DAT_COUNT> soft_watermark = DAT_WATERMARK_INFINITE;
    std::atomic<DAT_COUNT> hard_watermark = DAT_WATERMARK_INFINITE;
    broken_task when_broken{*this};
    std::unique_ptr<coherdma_qp, deleter<coherdma_close_qp>>
        remote_ops;                   ///< for atomic writes and flushes; under requests.lock
    std::shared_ptr<ibv_cq> dummy_cq; ///< for a direction without an EVD
    std::shared_ptr<ibv_qp> owned_qp;
    std::shared_ptr<ended_attempt> attempt; ///< under lock: uses the QP until it is destroyed
};

inline bool is_ud_service(DAT_SERVICE_TYPE service_type) noexcept {
    return service_type != DAT_SERVICE_TYPE_RC;
}

/// The DAT_INVALID_STATE subtype of an EP state.
DAT_UINT32 state_subtype(DAT_EP_STATE state) noexcept;

/// Creates the QP of an EP that has a PZ.
DAT_RETURN ep_create_qp(dapl_ep &ep) noexcept;
/// Moves what has completed to the request EVD. True: so have all requests that were posted before
/// the first of these calls, or there is no way to know. Unsignaled requests have no completion: a
/// marker behind them, a request without data or event, has one.
bool drain_requests(dapl_ep &ep) noexcept;
/// The QP was destroyed: its marker does not complete any more.
void forget_marker(dapl_ep &ep) noexcept;
/// How long the caller of drain_requests waits until it asks again. The CQ's notification belongs
/// to the consumer, who may wait for it.
inline constexpr std::int64_t drain_interval_ns = 1'000'000;
/// Completes a work request that the device will not complete, as flushed. False: it makes no
/// event. With the EVD's lock held.
bool flush_request(dapl_evd &evd, std::uint64_t wr_id, DAT_EVENT &event) noexcept;
/// Waits until the work requests of a QP in ERR have been flushed, but not forever.
void ep_wait_for_flush(dapl_ep &ep) noexcept;
/// Moves what has completed to the EVDs, then destroys the QP.
void ep_destroy_qp(dapl_ep &ep) noexcept;

/// Checks the attributes by the device's limits, replaces 0 by defaults. argument: their number.
DAT_RETURN validate_ep_attr(const dapl_ia &ia, DAT_EP_ATTR &attr, unsigned argument) noexcept;
DAT_EP_ATTR default_ep_attr(const dapl_ia &ia) noexcept;

/// Creates an EP that is not yet published. The arguments are checked; the references pass to the
/// EP on success.
DAT_RETURN create_ep_object(dapl_ia &ia, const ep_refs &refs, const DAT_EP_ATTR &attr,
                            dapl_ep *&ep) noexcept;

/// The EP was removed.
void destroy_ep(dapl_ep *ep) noexcept;

/// Sets the EP's references and attributes; its QP has to be created after that.
void set_refs(dapl_ep &ep, const ep_refs &refs, const DAT_EP_ATTR &attr) noexcept;

} // namespace coherdma::dapl

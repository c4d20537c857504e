// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Waiting until an EP's work requests have completed: before a graceful disconnect, however long
// that takes, and before a QP in ERR is destroyed.

#include "dapl/core/deadline.hpp"
#include "dapl/event/evd.hpp"
#include "dapl/ia/ia.hpp"
#include "ended_attempt.hpp"
#include "ep.hpp"

#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <limits>

namespace coherdma::dapl {

namespace {

/// siw's kernel may complete requests behind a Read before it. A marker waits for the Read. But in
/// ERR Reads are flushed first, and a marker is not flushed.
bool may_have_overtaken_read(dapl_ep &ep) noexcept {
    return ep.ia->dev->iwarp && ep.current_state() != DAT_EP_STATE_DISCONNECTED &&
           ep.requests.may_have_read();
}

/// Posts the marker: a Write without data, which needs no memory of the peer. 0 or an errno. With
/// requests.lock held.
int post_marker(dapl_ep &ep) noexcept {
    dto_cookie &cookie = ep.requests.peek_next();
    cookie.event.operation = marker_operation;
    cookie.num_sinks = 0;
    cookie.object = nullptr;
    ibv_send_wr wr = {};
    wr.wr_id = ep.requests.wr_id_of(cookie);
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    if (ep.ia->dev->iwarp) // see may_have_overtaken_read()
        wr.send_flags |= IBV_SEND_FENCE;
    ibv_send_wr *bad_wr;
    ep.requests.commit(cookie, wr.send_flags);
    const int error = std::abs(ibv_post_send(ep.qp, &wr, &bad_wr)); // siw's errnos are negative
    if (error != 0)
        ep.requests.rollback();
    return error;
}

/// Sets drain_seq, if that can be done now: to the last request if its completion shows that all
/// have completed, else to a marker behind it. False: the QP takes no request. With the locks of
/// the ring and of the EVD held.
bool choose_drain_seq(dapl_ep &ep) noexcept {
    dapl_evd &evd = *ep.request_evd;
    if (!ep.requests.last_is_signaled() || may_have_overtaken_read(ep)) {
        // A queue that is full has room when a request has completed.
        if (!ep.requests.has_completed(ep.marker_seq) || !evd.has_room_for_marker())
            return true;
        if (const int error = post_marker(ep))
            return error == ENOMEM;
        ++evd.num_markers;
        ep.marker_seq = ep.requests.last_seq();
    }
    ep.drain_seq = ep.requests.last_seq();
    return true;
}

/// Moves what has completed to the receive EVD. Returns how many receives are left there.
std::uint32_t count_receives(dapl_ep &ep) noexcept {
    if (ep.recv_evd == nullptr)
        return 0;
    const std::lock_guard guard(ep.recv_evd->lock);
    ep.recv_evd->drain_cq();
    return ep.receives.outstanding();
}

/// Completes what is outstanding, after what the device has completed. evd: or nullptr.
void flush_ring(cookie_ring &ring, dapl_evd *evd) noexcept {
    if (evd == nullptr)
        return;
    const std::lock_guard guard(ring.lock);
    const std::lock_guard evd_guard(evd->lock);
    evd->drain_cq();
    ring.for_each_outstanding([evd](std::uint64_t wr_id) {
        if (evd->append_event() && !flush_request(*evd, wr_id, evd->queue.back()))
            evd->queue.pop_back();
    });
    evd->wake_waiter();
}

} // namespace

bool drain_requests(dapl_ep &ep) noexcept {
    if (ep.request_evd == nullptr) // No thread polls for completions.
        return true;
    const std::lock_guard guard(ep.requests.lock);
    const std::lock_guard evd_guard(ep.request_evd->lock);
    ep.request_evd->drain_cq();
    if (ep.qp == nullptr)
        return true;
    if (ep.drain_seq == 0 &&
        ((ep.requests.outstanding() == 0 && !may_have_overtaken_read(ep)) || !choose_drain_seq(ep)))
        return true;
    return ep.drain_seq != 0 && ep.requests.has_completed(ep.drain_seq);
}

void forget_marker(dapl_ep &ep) noexcept {
    if (ep.request_evd == nullptr)
        return;
    const std::lock_guard guard(ep.requests.lock);
    const std::lock_guard evd_guard(ep.request_evd->lock);
    if (!ep.requests.has_completed(ep.marker_seq))
        --ep.request_evd->num_markers;
}

/// A kernel task flushes the work requests of a QP in ERR, at some time after ibv_modify_qp: what
/// it has not flushed when the QP is destroyed would have no event. Not forever: nothing is flushed
/// if the CQ has overflowed or the device is gone.
void ep_wait_for_flush(dapl_ep &ep) noexcept {
    constexpr std::int64_t max_idle_ns = 1'000'000'000; // without a completion
    constexpr timespec poll_interval = {.tv_sec = 0, .tv_nsec = 50000};
    bool is_held = false;
    {
        const std::lock_guard guard(ep.lock);
        is_held = ep.attempt != nullptr;
    }
    if (is_held) { // The kernel has the QP, and ibv_modify_qp did not move it.
        flush_ring(ep.requests, ep.request_evd);
        flush_ring(ep.receives, ep.recv_evd);
        return;
    }
    {
        const std::lock_guard guard(ep.requests.lock);
        ep.drain_seq = 0; // A graceful disconnect's does not cover the requests after it.
    }
    // Fewer count only: another thread may still be posting.
    std::uint32_t fewest = std::numeric_limits<std::uint32_t>::max();
    std::int64_t fewest_since_ns = 0;
    for (;;) {
        const bool drained = drain_requests(ep);
        const std::uint32_t receives = count_receives(ep);
        if (drained && receives == 0)
            return;
        const std::uint32_t left = receives + ep.requests.outstanding();
        const std::int64_t now_ns = dat_deadline::now_ns();
        if (left < fewest) {
            fewest = left;
            fewest_since_ns = now_ns;
        } else if (now_ns - fewest_since_ns > max_idle_ns) {
            return;
        }
        nanosleep(&poll_interval, nullptr);
    }
}

} // namespace coherdma::dapl

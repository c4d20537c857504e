// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// An event dispatcher (EVD): a queue of events of one or more streams. Completions come from its
// CQ; other events are posted to it. udapl/README.md describes the interplay.
#pragma once

#include "dapl/core/lock.hpp"
#include "dapl/core/object.hpp"
#include "dapl/core/unique_handle.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <unistd.h>

namespace coherdma::dapl {

struct dapl_cno;

class unique_fd {
  public:
    unique_fd() noexcept = default;
    ~unique_fd() { reset(); }
    unique_fd(const unique_fd &) = delete;
    unique_fd &operator=(const unique_fd &) = delete;
    void reset(int fd = -1) noexcept {
        if (fd_ >= 0)
            close(fd_);
        fd_ = fd;
    }
    int get() const noexcept { return fd_; }
    explicit operator bool() const noexcept { return fd_ >= 0; }

  private:
    int fd_ = -1;
};

/// The streams whose events come from a CQ.
inline constexpr DAT_EVD_FLAGS completion_streams =
    static_cast<DAT_EVD_FLAGS>(DAT_EVD_DTO_FLAG | DAT_EVD_RMR_BIND_FLAG);

struct dapl_evd : object {
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_EVD;
    static constexpr DAT_UINT32 bad_handle = DAT_INVALID_HANDLE_EVD_REQUEST;
    dapl_evd(dapl_ia &parent, DAT_COUNT length, DAT_EVD_FLAGS evd_flags)
        : object(parent)
        , qlen(length)
        , flags(evd_flags) {}
    ~dapl_evd();

    /// Of a CQ for so many events, and the markers: there is always room for one.
    int cq_size(DAT_COUNT num_events) const noexcept;
    /// After the CQ got its size: at least num_events.
    void set_qlen(DAT_COUNT num_events) noexcept;
    /// Creates the CQ and its completion channel, which does not block. 0 or an errno.
    int create_cq() noexcept;

    /// Queues an event that is no completion, and wakes a waiter or triggers the CNO. False: the
    /// queue is full; the event is dropped, and an overflow is reported to the asynchronous EVD.
    bool post(const DAT_EVENT &event) noexcept;

    /// Makes a thread in dat_evd_wait return, before the EVD is destroyed. It is not published any
    /// more, so that no other thread starts to wait.
    void cancel_waiters() noexcept;

    // The rest requires lock.

    /// Makes a thread in dat_evd_wait return.
    void cancel_waiter_locked() noexcept;

    /// The queue's limit for post().
    std::uint32_t max_events() const noexcept;

    /// Appends an empty event to the queue. False: out of memory.
    bool append_event() noexcept;
    /// Moves all completions to the queue.
    void drain_cq() noexcept;
    /// Drains the CQ and returns the number of events in the queue.
    std::uint32_t num_events() noexcept;
    /// There is an event, or the consumer must learn by dat_evd_dequeue that the CQ cannot be
    /// polled.
    bool needs_consumer() noexcept;
    /// An EP of which each completion wakes waiters uses the EVD, or does not any more.
    void add_unsolicited() noexcept;
    void remove_unsolicited() noexcept { --num_unsolicited; }
    /// Whether the CQ has room for another marker. Else tries to enlarge it.
    bool has_room_for_marker() noexcept;
    /// Requests a notification of the next completion.
    bool arm() noexcept;
    /// Reads the descriptors that are readable.
    void clear_notifications(bool event_fd_readable, bool channel_readable) noexcept;
    /// Creates the eventfd that post() signals. False: no descriptor is left.
    bool create_event_fd() noexcept;
    void signal_event_fd() const noexcept;
    /// After an event was queued: a thread in dat_evd_wait, or the CNO.
    void wake_waiter() const noexcept;

    mutex lock;
    std::shared_ptr<ibv_cq> cq;
    std::deque<DAT_EVENT> queue;
    ibv_wc wc;                  ///< the CQE polled last
    bool poll_failed = false;   ///< the last time: there may be completions, which notify no more
    bool has_waiter = false;    ///< a thread is in dat_evd_wait; it sleeps without the lock
    bool wait_canceled = false; ///< the waiter must return
    bool masked_in_cno = false; ///< does not trigger its CNO: a thread is in dat_evd_wait
    bool waitable = true;
    bool enabled = true;
    /// Streams of EPs of which each completion wakes waiters; 0: only solicited ones do.
    unsigned num_unsolicited = 0;
    DAT_COUNT qlen;
    const DAT_EVD_FLAGS flags;
    int num_markers = 0;      ///< in the CQ or outstanding, see drain_requests
    unsigned num_unacked = 0; ///< CQ events without ibv_ack_cq_events
    dapl_cno *cno = nullptr;
    std::shared_ptr<ibv_comp_channel> channel;
    unique_fd event_fd; ///< post() signals it for a waiter or a CNO
};

/// True: one EVD may have both streams, each an index of evd_streams.
bool can_merge(std::size_t stream_a, std::size_t stream_b) noexcept;
/// In the order of DAT_PROVIDER_ATTR's evd_stream_merging_supported.
inline constexpr std::array<DAT_UINT32, 6> evd_streams = {
    DAT_EVD_SOFTWARE_FLAG,   DAT_EVD_CR_FLAG,       DAT_EVD_DTO_FLAG,
    DAT_EVD_CONNECTION_FLAG, DAT_EVD_RMR_BIND_FLAG, DAT_EVD_ASYNC_FLAG};

/// evd_create without the check of arguments.
DAT_RETURN create_evd_object(dapl_ia &ia, DAT_COUNT qlen, DAT_EVD_FLAGS flags,
                             dapl_evd *&evd) noexcept;
/// The EVD was removed. If objects of other IAs refer to it, it is destroyed with the last of their
/// references.
void destroy_evd(dapl_evd *evd) noexcept;

/// Posts to the IA's asynchronous EVD, if it has one.
void post_async_event(dapl_ia &ia, DAT_EVENT_NUMBER number, DAT_HANDLE handle,
                      DAT_COUNT reason) noexcept;
/// Reports the overflow of an EVD to the asynchronous EVD.
void report_overflow(dapl_evd &evd) noexcept;

/// If the EVD has no such stream, drops the reference to it and returns nullptr. nullptr returns
/// nullptr.
dapl_evd *require_stream(dapl_evd *evd, DAT_EVD_FLAGS stream) noexcept;

} // namespace coherdma::dapl

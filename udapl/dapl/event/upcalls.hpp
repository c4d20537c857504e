// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What this folder calls in the folders above it. Each function names the file that has it.
#pragma once

#include "evd.hpp"
#include "event_thread.hpp"

namespace coherdma::dapl {

/// ep/completion.cpp. Polls the EVD's CQ, under its lock, until a completion has an event.
/// DAT_QUEUE_EMPTY: there is none. As OFED's it lacks the class bit, since consumers compare with
/// it.
DAT_RETURN poll_event(dapl_evd &evd, DAT_EVENT &event) noexcept;

/// ep/watermark.cpp. An event enters the EVD's queue. Crossing the soft watermark posts an
/// asynchronous event; the hard one breaks the connection. Called with the EVD's lock.
void srq_recv_enqueued(const DAT_EVENT &event) noexcept;
/// ep/watermark.cpp. The consumer dequeues it. Called with the EVD's lock.
void srq_recv_dequeued(const DAT_EVENT &event) noexcept;

/// async.cpp. In the child of a fork, which does not watch the devices that its parent has opened.
void async_events_atfork_child() noexcept;

namespace cm {

/// cm/dispatch.cpp. Reads librdmacm's event channel in the event thread.
fd_watcher &channel_watcher() noexcept;
/// cm/accept.cpp. Releases what an event that no consumer gets has brought: rejects the connection
/// request, or destroys the peer's address handle.
void drop_undelivered(const DAT_EVENT &event) noexcept;
/// cm/dreq.cpp. There are connections without an EP; waits until they are deleted. Called before
/// the event thread ends.
bool waits_for_dreps() noexcept;
void wait_for_dreps() noexcept;
/// cm/dreq.cpp. In the child of a fork, which drops its parent's connections.
void dreq_atfork_child() noexcept;

} // namespace cm
} // namespace coherdma::dapl

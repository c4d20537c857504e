// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A consumer notification object (CNO): an epoll instance over the descriptors of its EVDs. A
// thread waits for it, the consumer polls its descriptor, or the event thread watches it and calls
// the consumer's agent.
//
// An EVD triggers once for the events since it last triggered; the consumer then dequeues until the
// EVD is empty. Events that it leaves do not trigger again: OFED's dtest waits for one EVD while
// another of the same CNO has events that it ignores.
#pragma once

#include "evd.hpp"
#include "event_thread.hpp"

namespace coherdma::dapl {

struct dapl_cno : object {
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_CNO;
    static constexpr DAT_UINT32 bad_handle = DAT_INVALID_HANDLE_CNO;
    dapl_cno(dapl_ia &parent, const DAT_OS_WAIT_PROXY_AGENT &proxy_agent) noexcept
        : object(parent)
        , agent(proxy_agent) {}

    bool init() noexcept;
    /// Makes the EVD trigger this CNO instead of old_cno, its former; at once if it has events.
    /// False: no memory, nothing is changed. The references are the caller's.
    bool attach_evd(dapl_evd &evd, dapl_cno *&old_cno) noexcept;
    /// The EVD triggers no CNO any more. Returns its former.
    static dapl_cno *detach_evd(dapl_evd &evd) noexcept;

    /// While a thread is in dat_evd_wait the EVD does not trigger the CNO; unmasking triggers for
    /// the events that are left. With the EVD's lock held.
    void mask_evd(dapl_evd &evd) noexcept;
    void unmask_evd(dapl_evd &evd) noexcept;

    /// An EVD that has events and has triggered; DAT_HANDLE_NULL if there is none. With the lock:
    /// an EVD that triggered is given to one thread.
    DAT_EVD_HANDLE next_triggered_evd() noexcept;
    /// Makes all threads in dat_cno_wait return, before the CNO is destroyed.
    void cancel_waiters() noexcept;

    /// Calls the agent if an EVD has triggered. Like DAT 1.2 and OFED only once: the agent is then
    /// removed until dat_cno_modify_agent sets one.
    void call_agent() noexcept;

    /// Called by the event thread.
    struct agent_caller final : fd_watcher {
        explicit agent_caller(dapl_cno &owner) noexcept
            : cno(owner) {}
        void handle_readable() noexcept override { cno.call_agent(); }
        dapl_cno &cno;
    } agent_watcher{*this};

    mutex lock; ///< of agent, num_waiters and the search for an EVD that has triggered
    DAT_OS_WAIT_PROXY_AGENT agent;
    bool is_fd_cno = false;   ///< of dat_cno_fd_create: the consumer polls epoll_fd
    unsigned num_waiters = 0; ///< threads in dat_cno_wait
    unique_fd epoll_fd;
    unique_fd cancel_fd; ///< makes dat_cno_wait return
};

/// The CNO is not published any more.
void destroy_cno(dapl_cno *cno) noexcept;

} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A notification object: tells which of its EVDs have got an event. It is an epoll descriptor over
// the descriptors of its EVDs, so it can be waited for, polled by the program, or watched by the
// library's thread, which then calls the program's agent.
//
// An EVD triggers once for what came since it triggered last. Whoever is told of it takes events
// until there are none. What he leaves is not told again: OFED's dtest waits for one EVD while
// another of the same CNO has events that it does not want.
#pragma once

#include "evd.hpp"
#include "events.hpp"

namespace coherdma::dapl {

struct cno : object {
    static constexpr DAT_HANDLE_TYPE type = DAT_HANDLE_TYPE_CNO;
    cno(ia &of, const DAT_OS_WAIT_PROXY_AGENT &wanted) noexcept
        : object(of)
        , agent(wanted) {}

    bool make() noexcept;
    /// The EVD triggers it from now on, and no other; at once if there is something in it. False:
    /// as before, there is no memory.
    bool attach(evd &one) noexcept;
    void detach(evd &one) noexcept;

    /// Somebody waits for the EVD itself: nothing of it triggers until he has gone, and then what
    /// he left does. With the EVD's guard.
    void let_alone(evd &one) noexcept;
    void listen_again(evd &one) noexcept;

    /// An EVD with something in it; nullptr if there is none.
    evd *triggered() noexcept;

    /// Calls the agent for what has triggered: once, as DAT 1.2 and OFED do. It is forgotten then,
    /// until dat_cno_modify_agent names one again.
    void call_agent() noexcept;

    /// What the library's thread calls.
    struct caller final : watcher {
        explicit caller(cno &whom) noexcept
            : of(whom) {}
        void ready() noexcept override { of.call_agent(); }
        cno &of;
    } by_thread{*this};

    lock guard; ///< of what follows, but for the descriptor
    DAT_OS_WAIT_PROXY_AGENT agent;
    bool by_descriptor = false;
    unsigned waiters = 0;
    descriptor fd;
    descriptor left; ///< for who waits: he is to give up
};

} // namespace coherdma::dapl

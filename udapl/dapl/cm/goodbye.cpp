// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What ends a connection may be lost on its way, and the kernel sends it again some seconds later,
// as long as the id is there. A program is not kept waiting for that. But the connection of an
// endpoint that goes stays until the peer has answered, or for a while: else the peer's would never
// end.

#include "../clock.hpp"
#include "connection.hpp"

namespace coherdma::dapl::cm {

namespace {

// Time enough to send it once more: the kernel does after 4.1 seconds, and if this side was the one
// that connected half a second later (7.2), or two (6.1). Its timers may be late by an eighth. A
// peer that has died, or does not care, costs no more.
constexpr std::int64_t answered_in = 8'000'000'000;

struct {
    lock guard;                           ///< of what connections say of their goodbyes
    std::atomic<std::uint32_t> alone = 0; ///< connections without an endpoint
} here;

} // namespace

bool say_goodbye(connection &by) noexcept {
    // iWARP has TCP for that.
    const bool may_be_lost =
        by.id->verbs != nullptr && by.id->verbs->device->transport_type != IBV_TRANSPORT_IWARP;
    {
        const holding held(here.guard); // Before the answer can come.
        if (by.goodbye == by.unsaid && may_be_lost)
            by.goodbye = by.said;
        by.due_by = deadline::now() + answered_in;
    }
    if (rdma_disconnect(by.id) == 0)
        return true;
    const holding held(here.guard);
    by.goodbye = by.answered;
    return false;
}

void goodbye_answered(connection &by) noexcept {
    const holding held(here.guard);
    by.goodbye = by.answered;
    if (by.alone)
        events::at(by, deadline::now());
}

namespace {

bool leave_alone(connection &one) noexcept {
    const holding held(here.guard);
    if (one.goodbye != one.said)
        return false;
    one.alone = true;
    ++here.alone;
    events::at(one, one.due_by);
    return true;
}

} // namespace

void part_with(connection *by) noexcept {
    if (leave_alone(*by))
        events::await_end_of(dispatcher());
    else
        delete by; // This waits likewise, in rdma_destroy_id.
}

void connection::run() noexcept {
    {
        const holding held(here.guard); // who parted with it has done so
    }
    delete this;
    // seq_cst, for the library's look at who sleeps: see lock.cpp.
    here.alone.fetch_sub(1);
    here.alone.notify_all();
}

void await_answers() noexcept {
    // acquire: what the thread did with them is done.
    for (std::uint32_t left; (left = here.alone.load(std::memory_order_acquire)) != 0;)
        here.alone.wait(left, std::memory_order_relaxed);
}

void hold_goodbyes() noexcept {
    here.guard.lock_it();
}
void go_on_with_goodbyes() noexcept {
    here.guard.unlock();
}
void forget_goodbyes() noexcept {
    here.alone.store(0, std::memory_order_relaxed);
    here.guard.unlock();
}

} // namespace coherdma::dapl::cm

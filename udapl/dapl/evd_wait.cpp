// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Taking events: at once, or when there are enough.

#include "api.hpp"
#include "clock.hpp"
#include "cno.hpp"
#include "completion.hpp"
#include "evd.hpp"
#include "watermark.hpp"

#include <cerrno>
#include <poll.h>

namespace coherdma::dapl {

namespace {

// Without the class bit where there is a CQ: so says OFED, and programs compare it as a whole.
constexpr DAT_RETURN no_completion = DAT_QUEUE_EMPTY;

/// With the lock.
DAT_RETURN take(evd &one, DAT_EVENT &event) noexcept {
    if (one.waited)
        return wrong_state(DAT_INVALID_STATE_EVD_WAITER);
    if (!one.events.empty()) {
        event = one.events.front();
        went(event);
        one.events.pop();
        one.straight = one.is_straight();
        return DAT_SUCCESS;
    }
    if (!one.cq)
        return failed(DAT_QUEUE_EMPTY);
    return next_completion(one, event) ? DAT_RETURN{DAT_SUCCESS} : no_completion;
}

[[gnu::noinline]] DAT_RETURN dequeue(DAT_EVD_HANDLE evd_handle, DAT_EVENT *event) noexcept {
    evd *const one = called_with<evd>(evd_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EVD_REQUEST);
    if (event == nullptr)
        return wrong_argument(2);
    const holding held(one->guard);
    return take(*one, *event);
}

// What evd_dequeue has to do besides, having the lock, is the last thing that it does.

[[gnu::noinline]] DAT_RETURN take_and_unlock(evd &one, DAT_EVENT &event) noexcept {
    const DAT_RETURN result = take(one, event);
    one.guard.unlock();
    return result;
}

[[gnu::noinline]] DAT_RETURN tell_and_unlock(evd &one, DAT_EVENT &event) noexcept {
    const DAT_RETURN result = tell_more(one, event) ? DAT_RETURN{DAT_SUCCESS} : take(one, event);
    one.guard.unlock();
    return result;
}

[[gnu::cold, gnu::noinline]] DAT_RETURN wake(evd &one, DAT_RETURN result) noexcept {
    one.guard.wake();
    return result;
}

[[gnu::always_inline]] inline DAT_RETURN unlocked(evd &one, DAT_RETURN result) noexcept {
    // Else the lock's address, known from before, would be kept in a register of its own.
    evd *again = &one;
    asm("" : "+r"(again));
    return again->guard.give_back() ? wake(*again, result) : result;
}

} // namespace

// The short way: a completion goes from the CQ into the program's event.
DAT_RETURN evd_dequeue(DAT_EVD_HANDLE evd_handle, DAT_EVENT *event) noexcept {
    evd *const one = called_with<evd>(evd_handle);
    if (one == nullptr || event == nullptr || !one->guard.try_it()) [[unlikely]]
        return dequeue(evd_handle, event);
    if (!one->straight) [[unlikely]]
        return take_and_unlock(*one, *event);
    one->into = event; // or it would be kept in a register of its own
    if (ibv_poll_cq(one->cq.get(), 1, &one->found) <= 0)
        return unlocked(*one, no_completion);
    if (!tell(*one, *one->into)) [[unlikely]]
        return tell_and_unlock(*one, *one->into);
    return unlocked(*one, DAT_SUCCESS);
}

namespace {

enum class woken { by_event, in_time, no_more };

/// Sleeps until there may be something new. The lock is given up meanwhile.
woken sleep(evd &one, deadline until) noexcept {
    if (!one.make_bell() || !one.arm())
        return woken::no_more;
    // What came before the CQ was armed does not ring.
    const std::uint32_t before = one.events.size();
    if (one.gather() != before)
        return woken::by_event;
    if (one.feeds != nullptr && !one.apart)
        one.feeds->let_alone(one);
    pollfd fds[2] = {{one.bell.get(), POLLIN, 0}, {one.channel ? one.channel->fd : -1, POLLIN, 0}};
    one.sleeping = true;
    one.guard.unlock();
    const int ready = ppoll(fds, 2, until.left(), nullptr);
    const int error = errno;
    one.guard.lock_it();
    one.sleeping = false;
    if (ready < 0)
        return error == EINTR ? woken::by_event : woken::no_more;
    if (ready == 0)
        return woken::in_time;
    one.disarm(fds[0].revents != 0, fds[1].revents != 0);
    return woken::by_event;
}

DAT_RETURN wait(evd &one, deadline until, std::uint32_t threshold) noexcept {
    for (;;) {
        if (one.gather() >= threshold)
            return DAT_SUCCESS;
        if (one.leave)
            return one.waitable ? failed(DAT_ABORT) : wrong_state(DAT_INVALID_STATE_EVD_UNWAITABLE);
        if (until.passed())
            return failed(DAT_TIMEOUT_EXPIRED);
        if (sleep(one, until) == woken::no_more)
            return exhausted(DAT_RESOURCE_TEVD);
    }
}

} // namespace

DAT_RETURN evd_wait(DAT_EVD_HANDLE evd_handle, DAT_TIMEOUT timeout, DAT_COUNT threshold,
                    DAT_EVENT *event, DAT_COUNT *more) noexcept {
    evd *const one = called_with<evd>(evd_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EVD_REQUEST);
    const holding held(one->guard);
    if (threshold <= 0 || threshold > one->qlen || (threshold > 1 && !one->thresholds))
        return wrong_argument(3);
    if (event == nullptr)
        return wrong_argument(4);
    if (more == nullptr)
        return wrong_argument(5);
    if (!one->waitable)
        return wrong_state(DAT_INVALID_STATE_EVD_UNWAITABLE);
    if (one->waited)
        return wrong_state(DAT_INVALID_STATE_EVD_WAITER);
    one->waited = true;
    one->straight = false;
    const DAT_RETURN result = wait(*one, deadline(timeout), static_cast<std::uint32_t>(threshold));
    one->waited = false;
    one->leave = false;
    if (result == DAT_SUCCESS) {
        *event = one->events.front();
        went(*event);
        one->events.pop();
    }
    *more = static_cast<DAT_COUNT>(one->events.size());
    if (one->apart)
        one->feeds->listen_again(*one);
    one->straight = one->is_straight();
    return result;
}

} // namespace coherdma::dapl

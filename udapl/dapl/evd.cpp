// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "evd.hpp"

#include "api.hpp"
#include "async.hpp"
#include "cno.hpp"
#include "completion.hpp"
#include "device.hpp"
#include "ia.hpp"
#include "watermark.hpp"

#include <cerrno>
#include <fcntl.h>
#include <sched.h>
#include <sys/eventfd.h>

namespace coherdma::dapl {

evd::~evd() {
    if (unacknowledged != 0)
        ibv_ack_cq_events(cq.get(), unacknowledged);
    cq.reset(); // before its channel
}

int evd::make_queue() noexcept {
    channel.reset(ibv_create_comp_channel(home->verbs()));
    if (!channel)
        return errno;
    if (fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) != 0)
        return errno;
    cq.reset(ibv_create_cq(home->verbs(), qlen, this, channel.get(), 0));
    if (!cq)
        return errno;
    qlen = cq->cqe;
    straight = is_straight();
    return 0;
}

bool evd::make_bell() noexcept {
    if (!bell)
        bell.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    return static_cast<bool>(bell);
}

void evd::ring_bell() const noexcept {
    const std::uint64_t one = 1;
    // It can only fail by being rung already.
    [[maybe_unused]] const ssize_t written = write(bell.get(), &one, sizeof one);
}

// Completions that were gathered are no fault of who posts an event.
std::uint32_t evd::most() const noexcept {
    return static_cast<std::uint32_t>(qlen) + static_cast<std::uint32_t>(cq ? cq->cqe : 0);
}

std::uint32_t evd::gather() noexcept {
    while (cq && events.room() && next_completion(*this, events.back())) {
        came(events.back());
        events.pushed();
    }
    straight = is_straight();
    return events.size();
}

bool evd::arm() noexcept {
    return !cq || ibv_req_notify_cq(cq.get(), solicited) == 0;
}

void evd::disarm(bool by_bell, bool by_channel) noexcept {
    ibv_cq *of = nullptr;
    void *known = nullptr;
    // There is at most one: the CQ was armed once since the last.
    if (by_channel && ibv_get_cq_event(channel.get(), &of, &known) == 0)
        ++unacknowledged;
    // It takes a lock and may wake who destroys the queue: not once for each.
    if (unacknowledged > 1000) {
        ibv_ack_cq_events(cq.get(), unacknowledged);
        unacknowledged = 0;
    }
    std::uint64_t rung;
    [[maybe_unused]] const ssize_t was = by_bell ? read(bell.get(), &rung, sizeof rung) : 0;
}

bool evd::post(const DAT_EVENT &event) noexcept {
    {
        const holding held(guard);
        if (events.size() < most() && events.room()) [[likely]] {
            events.back() = event;
            events.back().evd_handle = this;
            events.pushed();
            straight = false;
            if (sleeping || (feeds != nullptr && enabled))
                ring_bell();
            return true;
        }
    }
    overflown(*this);
    return false;
}

DAT_RETURN evd_create(DAT_IA_HANDLE ia_handle, DAT_COUNT qlen, DAT_CNO_HANDLE cno_handle,
                      DAT_EVD_FLAGS flags, DAT_EVD_HANDLE *evd_handle) noexcept {
    ia *const on = called_with<ia>(ia_handle);
    if (on == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_IA);
    if (qlen <= 0)
        return wrong_argument(2);
    cno *const feeds = on->borrow<cno>(cno_handle);
    if (feeds == nullptr && cno_handle != DAT_HANDLE_NULL)
        return wrong_handle(DAT_INVALID_HANDLE_CNO);
    DAT_RETURN result = mergeable(flags) ? DAT_SUCCESS : wrong_argument(4);
    if (result == DAT_SUCCESS && evd_handle == nullptr)
        result = wrong_argument(5);
    evd *made = nullptr;
    if (result == DAT_SUCCESS)
        result = make_evd(*on, qlen, flags, made);
    if (result == DAT_SUCCESS && feeds != nullptr && !feeds->attach(*made)) {
        discard(made);
        result = exhausted(DAT_RESOURCE_TEVD);
    }
    if (result != DAT_SUCCESS) {
        on->give_back(feeds);
        return result;
    }
    on->adopt(made);
    *evd_handle = made;
    return DAT_SUCCESS;
}

DAT_RETURN make_evd(ia &on, DAT_COUNT qlen, DAT_EVD_FLAGS flags, evd *&made) noexcept {
    if (qlen > on.on->limits.max_cqe)
        return exhausted(DAT_RESOURCE_TEVD);
    made = prepare<evd>(on, qlen, flags);
    if (made == nullptr)
        return exhausted(DAT_RESOURCE_MEMORY);
    if ((flags & completion_streams) == 0)
        return DAT_SUCCESS;
    if (const int error = made->make_queue()) {
        discard(made);
        return failed_with(error, DAT_RESOURCE_TEVD);
    }
    return DAT_SUCCESS;
}

DAT_RETURN evd_query(DAT_EVD_HANDLE evd_handle, DAT_EVD_PARAM_MASK mask,
                     DAT_EVD_PARAM *param) noexcept {
    evd *const one = called_with<evd>(evd_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EVD_REQUEST);
    if ((mask & ~DAT_EVD_FIELD_ALL) != 0)
        return wrong_argument(2);
    if (param == nullptr)
        return wrong_argument(3);
    const holding held(one->guard);
    *param = {};
    param->ia_handle = one->home->handle();
    param->evd_qlen = one->qlen;
    param->evd_state = static_cast<DAT_EVD_STATE>(
        (one->enabled ? DAT_EVD_STATE_ENABLED : DAT_EVD_STATE_DISABLED) |
        (one->waitable ? DAT_EVD_STATE_WAITABLE : DAT_EVD_STATE_UNWAITABLE));
    param->cno_handle = one->feeds;
    param->evd_flags = one->flags;
    return DAT_SUCCESS;
}

DAT_RETURN evd_free(DAT_EVD_HANDLE evd_handle) noexcept {
    evd *const one = called_with<evd>(evd_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EVD_REQUEST);
    {
        const holding held(one->guard);
        if (one->waited)
            return wrong_state(DAT_INVALID_STATE_EVD_WAITER);
    }
    bool in_use;
    if (!one->home->disown(one, in_use))
        return in_use ? wrong_state(DAT_INVALID_STATE_EVD_IN_USE)
                      : wrong_handle(DAT_INVALID_HANDLE_EVD_REQUEST);
    end_evd(one);
    return DAT_SUCCESS;
}

namespace {

/// Whoever waits for events is told that there will be none.
void send_away(evd &one) noexcept {
    for (;;) {
        {
            const holding held(one.guard);
            if (!one.waited)
                return;
            one.leave = true;
            if (one.sleeping)
                one.ring_bell();
        }
        sched_yield();
    }
}

} // namespace

void end_evd(evd *one) noexcept {
    ia &on = *one->home;
    send_away(*one);
    if (cno *const feeds = one->feeds) {
        feeds->detach(*one);
        on.give_back(feeds);
    }
    forget_in_async(one);
    discard(one);
}

// The CNO of an EVD that the program knows, and how many EVDs each CNO has, change here and
// together: under the IA's lock, as with triggered(), and with the EVD's own inside. What attach()
// does with both held (it gathers, and may tell of a mark by the asynchronous EVD) takes EVDs'
// locks and the library thread's alone, and no thread that has one of these waits for an IA's.
DAT_RETURN evd_modify_cno(DAT_EVD_HANDLE evd_handle, DAT_CNO_HANDLE cno_handle) noexcept {
    evd *one = called_with<evd>(evd_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EVD_REQUEST);
    ia &on = *one->home;
    const holding held(on.guard);
    one = on.find<evd>(evd_handle); // It may have been freed since.
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EVD_REQUEST);
    cno *const last = one->feeds, *const next = on.find<cno>(cno_handle);
    if (next == nullptr && cno_handle != DAT_HANDLE_NULL)
        return wrong_handle(DAT_INVALID_HANDLE_CNO);
    if (next != nullptr) {
        if (!next->attach(*one))
            return exhausted(DAT_RESOURCE_TEVD);
        ++next->users;
    }
    if (last != nullptr) {
        if (next == nullptr)
            last->detach(*one);
        --last->users;
    }
    return DAT_SUCCESS;
}

namespace {

// change returns what it left the caller to say.
template <class what>
DAT_RETURN change(DAT_EVD_HANDLE evd_handle, what &&how) noexcept {
    evd *const one = called_with<evd>(evd_handle);
    if (one == nullptr)
        return wrong_handle(DAT_INVALID_HANDLE_EVD_REQUEST);
    const holding held(one->guard);
    return how(*one);
}

} // namespace

DAT_RETURN evd_enable(DAT_EVD_HANDLE evd_handle) noexcept {
    return change(evd_handle, [](evd &one) {
        one.enabled = true;
        if (one.feeds != nullptr) {
            // What came meanwhile triggers now.
            if (!one.arm())
                return failed(DAT_INTERNAL_ERROR);
            if (one.gather() != 0)
                one.ring_bell();
        }
        return DAT_RETURN{DAT_SUCCESS};
    });
}

DAT_RETURN evd_disable(DAT_EVD_HANDLE evd_handle) noexcept {
    return change(evd_handle, [](evd &one) {
        one.enabled = false;
        return DAT_RETURN{DAT_SUCCESS};
    });
}

DAT_RETURN evd_set_unwaitable(DAT_EVD_HANDLE evd_handle) noexcept {
    return change(evd_handle, [](evd &one) {
        one.waitable = false;
        if (one.waited) {
            one.leave = true;
            if (one.sleeping)
                one.ring_bell();
        }
        return DAT_RETURN{DAT_SUCCESS};
    });
}

DAT_RETURN evd_clear_unwaitable(DAT_EVD_HANDLE evd_handle) noexcept {
    return change(evd_handle, [](evd &one) {
        one.waitable = true;
        return DAT_RETURN{DAT_SUCCESS};
    });
}

DAT_RETURN evd_resize(DAT_EVD_HANDLE evd_handle, DAT_COUNT qlen) noexcept {
    return change(evd_handle, [qlen](evd &one) {
        if (qlen <= 0 || qlen > one.home->on->limits.max_cqe)
            return wrong_argument(2);
        if (one.gather() > static_cast<std::uint32_t>(qlen))
            return wrong_state(DAT_INVALID_STATE_EVD_IN_USE);
        if (!one.cq) {
            one.qlen = qlen;
            return DAT_RETURN{DAT_SUCCESS};
        }
        if (const int error = ibv_resize_cq(one.cq.get(), qlen)) {
            // A device that cannot has room enough already, or has not.
            if (qlen > one.cq->cqe)
                return failed_with(error, DAT_RESOURCE_TEVD);
        }
        one.qlen = one.cq->cqe;
        return DAT_RETURN{DAT_SUCCESS};
    });
}

DAT_RETURN evd_post_se(DAT_EVD_HANDLE evd_handle, const DAT_EVENT *event) noexcept {
    evd *const one = called_with<evd>(evd_handle);
    if (one == nullptr || (one->flags & DAT_EVD_SOFTWARE_FLAG) == 0)
        return one == nullptr ? wrong_handle(DAT_INVALID_HANDLE_EVD_REQUEST) : wrong_argument(1);
    if (event == nullptr || event->event_number != DAT_SOFTWARE_EVENT)
        return wrong_argument(2);
    return one->post(*event) ? DAT_SUCCESS : failed(DAT_QUEUE_FULL);
}

} // namespace coherdma::dapl

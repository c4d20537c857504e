// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "async.hpp"

#include "cm/connection.hpp"
#include "device.hpp"
#include "ep.hpp"
#include "evd.hpp"
#include "ia.hpp"
#include "srq.hpp"

#include <cerrno>
#include <fcntl.h>
#include <memory>
#include <utility>

namespace coherdma::dapl {

namespace {

/// A device's reports. All IAs of a device have one context of verbs, and one of these.
struct reports final : watcher {
    void ready() noexcept override;

    ibv_context *verbs = nullptr;
    unsigned users = 0;
    reports *next = nullptr;
};

// Nothing here may have a destructor: while the program is in exit() the library's thread goes on.
struct {
    lock guard; ///< of the list and of the IAs below
    reports *first = nullptr;
    std::array<ia *, 256> heard = {};
} all;

void about_pair(ep *one, ibv_event_type what) noexcept {
    switch (what) {
    case IBV_EVENT_COMM_EST:
        cm::traffic_seen(*one);
        break;
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    // That its receives have ended is told with the end of its connection, which may be known
    // later: of several endpoints both are then told in the same order. OFED's dtestsrq relies on
    // that.
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        break;
    default:
        report(*one->home, DAT_ASYNC_ERROR_EP_BROKEN, one, DAT_EP_TRANSFER_TO_ERROR);
    }
}

void about_device(ibv_context *verbs, DAT_EVENT_NUMBER number, DAT_COUNT reason) noexcept {
    for (ia *each : all.heard)
        if (each != nullptr && each->verbs() == verbs)
            report(*each, number, each->handle(), reason);
}

void tell(ibv_context *verbs, const ibv_async_event &event) noexcept {
    const holding held(all.guard);
    switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
        if (evd *const one = as<evd>(event.element.cq->cq_context))
            overflown(*one);
        break;
    case IBV_EVENT_SRQ_ERR:
        if (srq *const one = as<srq>(event.element.srq->srq_context))
            report(*one->home, DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR, one,
                   DAT_SRQ_TRANSFER_TO_ERROR);
        break;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        if (srq *const one = as<srq>(event.element.srq->srq_context))
            one->limit_reached();
        break;
    case IBV_EVENT_DEVICE_FATAL:
        about_device(verbs, DAT_ASYNC_ERROR_IA_CATASTROPHIC, DAT_IA_CATASTROPHIC_ERROR);
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        if (ep *const one = as<ep>(event.element.qp->qp_context))
            about_pair(one, event.event_type);
        break;
    default: // A port that goes or comes: connections tell of it themselves.
        break;
    }
}

void reports::ready() noexcept {
    ibv_async_event event;
    while (ibv_get_async_event(verbs, &event) == 0) {
        tell(verbs, event);
        ibv_ack_async_event(&event);
    }
}

} // namespace

int hear_of(ia &on) noexcept {
    const holding held(all.guard);
    ia **place = nullptr;
    for (ia *&each : all.heard)
        if (each == nullptr)
            place = &each;
    if (place == nullptr)
        return ENOMEM;
    for (reports *each = all.first; each != nullptr; each = each->next)
        if (each->verbs == on.verbs()) {
            ++each->users;
            *place = &on;
            return 0;
        }
    auto made = std::make_unique<reports>();
    made->verbs = on.verbs();
    const int fd = made->verbs->async_fd;
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
        return errno;
    if (const int error = events::watch(fd, *made))
        return error;
    made->users = 1;
    made->next = all.first;
    all.first = made.release();
    *place = &on;
    return 0;
}

void hear_no_more(ia &on) noexcept {
    std::unique_ptr<reports> ended;
    {
        const holding held(all.guard);
        for (ia *&each : all.heard)
            if (each == &on)
                each = nullptr;
        for (reports **place = &all.first; *place != nullptr; place = &(*place)->next)
            if ((*place)->verbs == on.verbs() && --(*place)->users == 0) {
                ended.reset(*place);
                *place = ended->next;
                // With the lock: who opens the device next watches the same descriptor.
                events::let_go(ended->verbs->async_fd);
                break;
            }
    }
    // Without the lock, which the thread may be waiting for.
    if (ended)
        events::await_end_of(*ended);
}

void report(ia &on, DAT_EVENT_NUMBER number, DAT_HANDLE about, DAT_COUNT reason) noexcept {
    evd *const to = on.async;
    if (to == nullptr)
        return;
    DAT_EVENT event = {};
    event.event_number = number;
    event.event_data.asynch_error_event_data.dat_handle = about;
    event.event_data.asynch_error_event_data.reason = reason;
    to->post(event);
}

void overflown(evd &one) noexcept {
    // Its own overflow it cannot tell of.
    if (&one != one.home->async)
        report(*one.home, DAT_ASYNC_ERROR_EVD_OVERFLOW, &one, DAT_EVD_OVERFLOW_ERROR);
}

void forget_in_async(const void *one) noexcept {
    const holding held(all.guard);
    // Its IA was closed abruptly: to others that use it the program promised that it lives on.
    for (ia *each : all.heard)
        if (each != nullptr && each->async == one)
            each->async = nullptr;
}

void hold_async() noexcept {
    all.guard.lock_it();
}

void go_on_async() noexcept {
    all.guard.unlock();
}

void forget_async() noexcept {
    while (all.first != nullptr)
        delete std::exchange(all.first, all.first->next);
    all.heard.fill(nullptr);
    all.guard.unlock();
}

} // namespace coherdma::dapl

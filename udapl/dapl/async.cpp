// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "async.hpp"

#include "dapl/cm/connection.hpp"
#include "dapl/ep/ep.hpp"
#include "dapl/ep/srq.hpp"
#include "dapl/event/evd.hpp"
#include "dapl/event/upcalls.hpp"
#include "dapl/ia/device.hpp"
#include "dapl/ia/ia.hpp"

#include <cerrno>
#include <fcntl.h>
#include <memory>
#include <new>

namespace coherdma::dapl {

namespace {

/// Reads the asynchronous events of an IA's device.
struct async_watcher final : fd_watcher {
    void handle_readable() noexcept override;

    dapl_ia *ia = nullptr;
    async_watcher *next = nullptr;
};

// No member has a destructor: exit() may run one while other threads open and close IAs.
struct {
    mutex lock;
    async_watcher *first = nullptr;
} watchers;

/// False: the QP is being destroyed, or was left to an ended attempt, see ended_attempt.hpp.
bool is_current_qp(dapl_ep &ep, const ibv_qp *qp) noexcept {
    const std::lock_guard guard(ep.requests.lock);
    return ep.qp == qp;
}

/// In the event thread: an asynchronous event of an EP's QP.
void handle_qp_event(dapl_ep &ep, ibv_event_type type) noexcept {
    switch (type) {
    case IBV_EVENT_COMM_EST:
        return cm::handle_comm_est(ep);
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
        return;
    // The disconnect event, which may come later, reports that the last Receive has
    // completed. So the events of several EPs have the same order, which OFED's dtestsrq relies on.
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        break;
    default:
        post_async_event(*ep.ia, DAT_ASYNC_ERROR_EP_BROKEN, &ep, DAT_EP_TRANSFER_TO_ERROR);
    }
    // On iWARP rdma_cm reports the end of the connection, which may be an orderly one by the peer.
    if (!ep.ia->dev->iwarp)
        ep.schedule_broken();
}

/// In the event thread: converts an asynchronous event of the IA's device to DAT events.
void handle_async_event(dapl_ia &ia, const ibv_async_event &event) noexcept {
    switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
        if (const auto evd = lookup<dapl_evd>(event.element.cq->cq_context))
            report_overflow(*evd);
        break;
    case IBV_EVENT_SRQ_ERR:
        if (const auto srq = lookup<dapl_srq>(event.element.srq->srq_context)) {
            srq->failed = true;
            post_async_event(*srq->ia, DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR, srq.get(),
                             DAT_SRQ_TRANSFER_TO_ERROR);
        }
        break;
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        if (const auto srq = lookup<dapl_srq>(event.element.srq->srq_context))
            srq->report_limit();
        break;
    case IBV_EVENT_DEVICE_FATAL:
        post_async_event(ia, DAT_ASYNC_ERROR_IA_CATASTROPHIC, ia.handle(),
                         DAT_IA_CATASTROPHIC_ERROR);
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        if (const auto ep = lookup<dapl_ep>(event.element.qp->qp_context);
            ep && is_current_qp(*ep, event.element.qp))
            handle_qp_event(*ep, event.event_type);
        break;
    default: // Port events: connections have events of their own.
        break;
    }
}

} // namespace

/// Reads one event, so that timers and other watchers do not wait for all.
void async_watcher::handle_readable() noexcept {
    ibv_async_event event;
    if (ibv_get_async_event(ia->ctx(), &event) != 0)
        return;
    handle_async_event(*ia, event);
    ibv_ack_async_event(&event);
}

int start_async_events(dapl_ia &ia) noexcept {
    std::unique_ptr<async_watcher> watcher(new (std::nothrow) async_watcher);
    const int fd = ia.ctx()->async_fd;
    if (!watcher)
        return ENOMEM;
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
        return errno;
    watcher->ia = &ia;
    if (const int error = event_thread::watch(fd, *watcher))
        return error;
    const std::lock_guard guard(watchers.lock);
    watcher->next = watchers.first;
    watchers.first = watcher.release();
    return 0;
}

void stop_async_events(dapl_ia &ia) noexcept {
    std::unique_ptr<async_watcher> removed;
    {
        const std::lock_guard guard(watchers.lock);
        async_watcher **link = &watchers.first;
        while ((*link)->ia != &ia)
            link = &(*link)->next;
        removed.reset(*link);
        *link = removed->next;
    }
    event_thread::unwatch(ia.ctx()->async_fd, *removed);
}

void for_each_watched_ia(void (*fn)(dapl_ia &)) noexcept {
    const std::lock_guard guard(watchers.lock);
    for (async_watcher *it = watchers.first; it != nullptr; it = it->next)
        fn(*it->ia);
}

void async_events_atfork_child() noexcept {
    watchers.first = nullptr;
    new (&watchers.lock) mutex;
}

} // namespace coherdma::dapl

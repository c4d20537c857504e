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
#include <utility>

namespace coherdma::dapl {

namespace {

/// Reads the asynchronous events of a device. All IAs of a device share its verbs context.
struct async_watcher final : fd_watcher {
    void handle_readable() noexcept override;

    ibv_context *context = nullptr;
    unsigned num_ias = 0;
    async_watcher *next = nullptr;
};

// No member has a destructor: the event thread still runs while the program is in exit().
struct async_deliveries {
    mutex lock;                             ///< of the members below
    async_watcher *first_watcher = nullptr; ///< one for each open device
    dapl_ia *first_ia = nullptr;            ///< of those that get events
} deliveries;

/// The QP is in error. On iWARP rdma_cm reports the end of the connection, which may be an orderly
/// one by the peer, and a QP of an earlier attempt may exist longer than the EP uses it.
void break_unless_iwarp(dapl_ep &ep) noexcept {
    if (!ep.ia->dev->iwarp)
        ep.schedule_broken();
}

/// In the event thread: an asynchronous event of an EP's QP.
void handle_qp_event(dapl_ep &ep, ibv_event_type type) noexcept {
    switch (type) {
    case IBV_EVENT_COMM_EST:
        cm::handle_comm_est(ep);
        break;
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
        break;
    // The disconnect event, which may come later, reports that the last Receive has
    // completed. So the events of several EPs have the same order, which OFED's dtestsrq relies on.
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        break_unless_iwarp(ep);
        break;
    default:
        break_unless_iwarp(ep);
        post_async_event(*ep.ia, DAT_ASYNC_ERROR_EP_BROKEN, &ep, DAT_EP_TRANSFER_TO_ERROR);
    }
}

/// Posts to the asynchronous EVD of each IA of a device.
void post_to_all_ias(ibv_context *context, DAT_EVENT_NUMBER number, DAT_COUNT reason) noexcept {
    const std::lock_guard guard(deliveries.lock);
    for (dapl_ia *ia = deliveries.first_ia; ia != nullptr; ia = ia->next_with_events)
        if (ia->ctx() == context)
            post_async_event(*ia, number, ia->handle(), reason);
}

/// In the event thread: converts an asynchronous event of a device to DAT events.
void handle_async_event(ibv_context *context, const ibv_async_event &event) noexcept {
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
        post_to_all_ias(context, DAT_ASYNC_ERROR_IA_CATASTROPHIC, DAT_IA_CATASTROPHIC_ERROR);
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        if (const auto ep = lookup<dapl_ep>(event.element.qp->qp_context))
            handle_qp_event(*ep, event.event_type);
        break;
    default: // Port events: connections have events of their own.
        break;
    }
}

void async_watcher::handle_readable() noexcept {
    ibv_async_event event;
    while (ibv_get_async_event(context, &event) == 0) {
        handle_async_event(context, event);
        ibv_ack_async_event(&event);
    }
}

} // namespace

namespace {

/// Adds a watcher of the context without IAs, with deliveries.lock held. 0 or an errno.
int add_watcher(ibv_context *context) noexcept {
    std::unique_ptr<async_watcher> watcher(new (std::nothrow) async_watcher);
    if (!watcher)
        return ENOMEM;
    watcher->context = context;
    const int fd = context->async_fd;
    if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0)
        return errno;
    if (const int error = event_thread::watch(fd, *watcher))
        return error;
    watcher->next = deliveries.first_watcher;
    deliveries.first_watcher = watcher.release();
    return 0;
}

} // namespace

/// Starts delivery of the device's events to the IA; the first IA of a device starts a watcher. 0
/// or an errno.
int start_async_events(dapl_ia &ia) noexcept {
    const std::lock_guard guard(deliveries.lock);
    async_watcher *watcher = deliveries.first_watcher;
    while (watcher != nullptr && watcher->context != ia.ctx())
        watcher = watcher->next;
    if (watcher == nullptr) {
        if (const int error = add_watcher(ia.ctx()))
            return error;
        watcher = deliveries.first_watcher;
    }
    ++watcher->num_ias;
    ia.next_with_events = std::exchange(deliveries.first_ia, &ia);
    return 0;
}

/// Ends delivery to the IA. With the last IA of a device, its watcher is deleted; on return it is
/// not being called.
void stop_async_events(dapl_ia &ia) noexcept {
    std::unique_ptr<async_watcher> removed;
    {
        const std::lock_guard guard(deliveries.lock);
        dapl_ia **ia_link = &deliveries.first_ia;
        while (*ia_link != &ia)
            ia_link = &(*ia_link)->next_with_events;
        *ia_link = ia.next_with_events;
        for (async_watcher **link = &deliveries.first_watcher; *link != nullptr;
             link = &(*link)->next)
            if ((*link)->context == ia.ctx() && --(*link)->num_ias == 0) {
                removed.reset(*link);
                *link = removed->next;
                // Under the lock: a thread that opens the device later adds a watcher of the same
                // fd, which must not be removed.
                event_thread::remove_fd(removed->context->async_fd);
                break;
            }
    }
    // Without the lock, which the event thread may be waiting for.
    if (removed)
        event_thread::wait_for_callback(*removed);
}

void for_each_ia_with_async_events(void (*fn)(dapl_ia &)) noexcept {
    const std::lock_guard guard(deliveries.lock);
    for (dapl_ia *ia = deliveries.first_ia; ia != nullptr; ia = ia->next_with_events)
        fn(*ia);
}

void async_events_atfork_prepare() noexcept {
    deliveries.lock.lock();
}

void async_events_atfork_parent() noexcept {
    deliveries.lock.unlock();
}

void async_events_atfork_child() noexcept {
    while (deliveries.first_watcher != nullptr)
        delete std::exchange(deliveries.first_watcher, deliveries.first_watcher->next);
    deliveries.first_ia = nullptr;
    deliveries.lock.unlock();
}

} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dat_evd_dequeue and dat_evd_wait.

#include "cno.hpp"
#include "dapl/api.hpp"
#include "sleep.hpp"
#include "upcalls.hpp"

namespace coherdma::dapl {

namespace {

/// dat_evd_dequeue, with the EVD's lock held.
DAT_RETURN dequeue_locked(dapl_evd &evd, DAT_EVENT &event) noexcept {
    if (evd.has_waiter) [[unlikely]]
        return invalid_state(DAT_INVALID_STATE_EVD_WAITER);
    if (!evd.queue.empty()) {
        event = evd.queue.front();
        srq_recv_dequeued(event);
        evd.queue.pop_front();
        return DAT_SUCCESS;
    }
    if (!evd.cq)
        return dat_error(DAT_QUEUE_EMPTY);
    return poll_event(evd, event);
}

} // namespace

DAT_RETURN evd_dequeue(DAT_EVD_HANDLE evd_handle, DAT_EVENT *event) noexcept {
    const auto evd = handle_to<dapl_evd>(evd_handle);
    if (!evd)
        return invalid_handle(DAT_INVALID_HANDLE_EVD_REQUEST);
    if (event == nullptr) [[unlikely]]
        return invalid_parameter(2);
    const std::lock_guard guard(evd->lock);
    return dequeue_locked(*evd, *event);
}

namespace {

/// Blocks in dat_evd_wait until there may be a new event or the time has expired. The caller holds
/// the EVD's lock, which is released meanwhile. DAT_INTERRUPTED_CALL: a signal handler has run.
DAT_RETURN block(dapl_evd &evd, sleeping_call &call) {
    if (!evd.create_event_fd() || !evd.arm())
        return no_resources(DAT_RESOURCE_TEVD);
    // Completions that arrived before the CQ was armed do not notify.
    const std::size_t num_before = evd.queue.size();
    if (evd.num_events() != num_before || evd.poll_failed)
        return DAT_SUCCESS;
    if (evd.cno != nullptr && !evd.masked_in_cno)
        evd.cno->mask_evd(evd); // does not trigger the CNO meanwhile
    pollfd fds[2] = {{evd.event_fd.get(), POLLIN, 0},
                     {evd.channel ? evd.channel->fd : -1, POLLIN, 0}};
    const DAT_RETURN result = call.sleep(evd.lock, fds);
    evd.clear_notifications(fds[0].revents != 0, fds[1].revents != 0);
    return result;
}

/// Waits until the queue has `threshold` events. The caller holds the EVD's lock.
DAT_RETURN wait(dapl_evd &evd, sleeping_call &call, std::uint32_t threshold) {
    DAT_RETURN result = DAT_SUCCESS;
    for (;;) {
        if (evd.num_events() >= threshold)
            return DAT_SUCCESS;
        if (evd.poll_failed)
            return dat_error(DAT_INTERNAL_ERROR);
        // By dat_evd_set_unwaitable, or because the EVD is freed, which unpublishes it.
        if (evd.wait_canceled)
            return is_published(&evd) ? invalid_state(DAT_INVALID_STATE_EVD_UNWAITABLE)
                                      : dat_error(DAT_ABORT);
        if (result != DAT_SUCCESS)
            return result;
        if (call.has_expired())
            return dat_error(DAT_TIMEOUT_EXPIRED);
        result = block(evd, call);
    }
}

} // namespace

DAT_RETURN evd_wait(DAT_EVD_HANDLE evd_handle, DAT_TIMEOUT timeout, DAT_COUNT threshold,
                    DAT_EVENT *event, DAT_COUNT *nmore) {
    sleeping_call call(timeout);
    const auto evd = handle_to<dapl_evd>(evd_handle);
    if (!evd)
        return invalid_handle(DAT_INVALID_HANDLE_EVD_REQUEST);
    const std::lock_guard guard(evd->lock);
    // Under the lock: the thread that frees the EVD cancels this wait, or is seen here.
    if (!is_published(evd.get()))
        return invalid_handle(DAT_INVALID_HANDLE_EVD_REQUEST);
    if (threshold <= 0 || threshold > evd->qlen)
        return invalid_parameter(3);
    if (event == nullptr)
        return invalid_parameter(4);
    if (nmore == nullptr)
        return invalid_parameter(5);
    if (!evd->waitable)
        return invalid_state(DAT_INVALID_STATE_EVD_UNWAITABLE);
    if (evd->has_waiter)
        return invalid_state(DAT_INVALID_STATE_EVD_WAITER);
    evd->has_waiter = true;
    const on_exit leave{[&evd = *evd] {
        evd.has_waiter = false;
        evd.wait_canceled = false;
        if (evd.masked_in_cno)
            evd.cno->unmask_evd(evd);
    }};
    const DAT_RETURN result = wait(*evd, call, static_cast<std::uint32_t>(threshold));
    if (result == DAT_SUCCESS) {
        *event = evd->queue.front();
        srq_recv_dequeued(*event);
        evd->queue.pop_front();
    }
    *nmore = static_cast<DAT_COUNT>(evd->queue.size());
    return result;
}

} // namespace coherdma::dapl

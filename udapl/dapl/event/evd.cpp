// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "evd.hpp"

#include "cno.hpp"
#include "dapl/api.hpp"
#include "dapl/ia/device.hpp"
#include "dapl/ia/ia.hpp"
#include "upcalls.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/eventfd.h>

namespace coherdma::dapl {

dapl_evd::~dapl_evd() {
    if (num_unacked != 0)
        ibv_ack_cq_events(cq.get(), num_unacked);
}

int dapl_evd::cq_size(DAT_COUNT num_events) const noexcept {
    const int room = std::max(num_markers, 1);
    return std::min(num_events, ia->dev->attr.max_cqe - room) + room;
}

void dapl_evd::set_qlen(DAT_COUNT num_events) noexcept {
    qlen = std::max(num_events, cq->cqe - std::max(num_markers, 1));
}

bool dapl_evd::has_room_for_marker() noexcept {
    return num_markers == 0 || cq->cqe - qlen > num_markers ||
           ibv_resize_cq(cq.get(), qlen + num_markers + 1) == 0;
}

int dapl_evd::create_cq() noexcept {
    channel = shared_handle<ibv_destroy_comp_channel>(ibv_create_comp_channel(ia->ctx()),
                                                      ia->dev->context);
    if (!channel)
        return errno;
    if (fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK) != 0)
        return errno;
    cq = shared_handle<ibv_destroy_cq>(
        ibv_create_cq(ia->ctx(), cq_size(qlen), this, channel.get(), 0), channel);
    if (!cq)
        return errno;
    set_qlen(qlen);
    return 0;
}

bool dapl_evd::create_event_fd() noexcept {
    if (!event_fd)
        event_fd.reset(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    return static_cast<bool>(event_fd);
}

void dapl_evd::signal_event_fd() const noexcept {
    // Fails only if the counter is at its maximum, so it is readable anyway.
    eventfd_write(event_fd.get(), 1);
}

/// The queue's limit for post(): completions moved to the queue do not use up the room for others.
std::uint32_t dapl_evd::max_events() const noexcept {
    return static_cast<std::uint32_t>(qlen) + static_cast<std::uint32_t>(cq ? cq->cqe : 0);
}

bool dapl_evd::append_event() noexcept {
    try {
        queue.emplace_back();
    } catch (const std::bad_alloc &) {
        return false;
    }
    return true;
}

void dapl_evd::drain_cq() noexcept {
    poll_failed = false;
    while (cq && append_event()) {
        if (const DAT_RETURN result = poll_event(*this, queue.back()); result != DAT_SUCCESS) {
            poll_failed = result != DAT_QUEUE_EMPTY;
            queue.pop_back();
            break;
        }
        srq_recv_enqueued(queue.back());
    }
}

bool dapl_evd::needs_consumer() noexcept {
    return num_events() != 0 || poll_failed;
}

std::uint32_t dapl_evd::num_events() noexcept {
    drain_cq();
    return static_cast<std::uint32_t>(queue.size());
}

bool dapl_evd::arm() noexcept {
    return !cq || ibv_req_notify_cq(cq.get(), num_unsolicited == 0) == 0;
}

void dapl_evd::add_unsolicited() noexcept {
    // A thread may sleep until a solicited completion. If arming fails it wakes, and reports that.
    if (num_unsolicited++ == 0 && (has_waiter || cno != nullptr) && !arm())
        signal_event_fd();
}

void dapl_evd::clear_notifications(bool event_fd_readable, bool channel_readable) noexcept {
    ibv_cq *event_cq = nullptr;
    void *cq_context = nullptr;
    // At most one event: since the previous one the CQ was armed once.
    if (channel_readable && ibv_get_cq_event(channel.get(), &event_cq, &cq_context) == 0)
        ++num_unacked;
    // In batches: ibv_ack_cq_events takes a mutex and signals a condition.
    constexpr unsigned max_unacked = 1000;
    if (num_unacked > max_unacked) {
        ibv_ack_cq_events(cq.get(), num_unacked);
        num_unacked = 0;
    }
    std::uint64_t value;
    [[maybe_unused]] const ssize_t size =
        event_fd_readable ? read(event_fd.get(), &value, sizeof value) : 0;
}

void dapl_evd::wake_waiter() const noexcept {
    if (has_waiter || (cno != nullptr && enabled))
        signal_event_fd();
}

bool dapl_evd::post(const DAT_EVENT &event) noexcept {
    {
        const std::lock_guard guard(lock);
        drain_cq(); // a disconnect comes after the completions before it
        if (queue.size() < max_events() && append_event()) [[likely]] {
            queue.back() = event;
            queue.back().evd_handle = this;
            wake_waiter();
            return true;
        }
    }
    report_overflow(*this);
    return false;
}

dapl_evd *require_stream(dapl_evd *evd, DAT_EVD_FLAGS stream) noexcept {
    if (evd == nullptr || (evd->flags & stream) != 0)
        return evd;
    dapl_ia::drop_ref(evd);
    return nullptr;
}

void post_async_event(dapl_ia &ia, DAT_EVENT_NUMBER number, DAT_HANDLE handle,
                      DAT_COUNT reason) noexcept {
    const auto evd = lookup<dapl_evd>(ia.async_evd);
    if (!evd)
        return;
    DAT_EVENT event = {};
    event.event_number = number;
    event.event_data.asynch_error_event_data.dat_handle = handle;
    event.event_data.asynch_error_event_data.reason = reason;
    evd->post(event);
}

void report_overflow(dapl_evd &evd) noexcept {
    // The asynchronous EVD cannot report its own overflow.
    if (&evd != evd.ia->async_evd)
        post_async_event(*evd.ia, DAT_ASYNC_ERROR_EVD_OVERFLOW, &evd, DAT_EVD_OVERFLOW_ERROR);
}

/// Asynchronous events have an EVD of their own, so that others do not overflow its queue.
bool can_merge(std::size_t stream_a, std::size_t stream_b) noexcept {
    return stream_a == stream_b || (evd_streams.at(stream_a) != DAT_EVD_ASYNC_FLAG &&
                                    evd_streams.at(stream_b) != DAT_EVD_ASYNC_FLAG);
}

namespace {

/// True: one EVD may have all of these streams.
bool can_merge_streams(DAT_EVD_FLAGS flags) noexcept {
    const auto requested = static_cast<DAT_UINT32>(flags) & ~DAT_UINT32{DAT_EVD_EXTENSION_BASE};
    DAT_UINT32 supported = 0;
    for (std::size_t i = 0; i != evd_streams.size(); ++i) {
        supported |= evd_streams.at(i);
        for (std::size_t j = 0; j != evd_streams.size(); ++j)
            if ((requested & evd_streams.at(i)) != 0 && (requested & evd_streams.at(j)) != 0 &&
                !can_merge(i, j))
                return false;
    }
    return flags != 0 && (requested & ~supported) == 0;
}

} // namespace

DAT_RETURN evd_create(DAT_IA_HANDLE ia_handle, DAT_COUNT qlen, DAT_CNO_HANDLE cno_handle,
                      DAT_EVD_FLAGS flags, DAT_EVD_HANDLE *evd_handle) noexcept {
    const auto ia = handle_to<dapl_ia>(ia_handle);
    if (!ia)
        return invalid_handle(DAT_INVALID_HANDLE_IA);
    if (qlen <= 0)
        return invalid_parameter(2);
    dapl_cno *const cno = ia->find_and_add_ref<dapl_cno>(cno_handle);
    if (cno == nullptr && cno_handle != DAT_HANDLE_NULL)
        return invalid_handle(DAT_INVALID_HANDLE_CNO);
    DAT_RETURN result = can_merge_streams(flags) ? DAT_SUCCESS : invalid_parameter(4);
    if (result == DAT_SUCCESS && evd_handle == nullptr)
        result = invalid_parameter(5);
    dapl_evd *evd = nullptr;
    if (result == DAT_SUCCESS)
        result = create_evd_object(*ia, qlen, flags, evd);
    dapl_cno *old_cno = nullptr;
    if (result == DAT_SUCCESS && cno != nullptr && !cno->attach_evd(*evd, old_cno)) {
        destroy_object(evd);
        result = no_resources(DAT_RESOURCE_TEVD);
    }
    if (result != DAT_SUCCESS) {
        ia->drop_ref(cno);
        return result;
    }
    ia->insert(evd);
    *evd_handle = evd;
    return DAT_SUCCESS;
}

DAT_RETURN create_evd_object(dapl_ia &ia, DAT_COUNT qlen, DAT_EVD_FLAGS flags,
                             dapl_evd *&evd) noexcept {
    if (qlen > ia.dev->attr.max_cqe)
        return no_resources(DAT_RESOURCE_TEVD);
    evd = create_object<dapl_evd>(ia, qlen, flags);
    if (evd == nullptr)
        return no_resources(DAT_RESOURCE_MEMORY);
    if ((flags & completion_streams) == 0)
        return DAT_SUCCESS;
    if (const int error = evd->create_cq()) {
        destroy_object(evd);
        return from_errno(error, DAT_RESOURCE_TEVD);
    }
    return DAT_SUCCESS;
}

DAT_RETURN evd_query(DAT_EVD_HANDLE evd_handle, DAT_EVD_PARAM_MASK mask,
                     DAT_EVD_PARAM *param) noexcept {
    return query_object<dapl_evd>(
        evd_handle, mask, DAT_EVD_FIELD_ALL, param, [param](dapl_evd &evd) {
            const std::lock_guard guard(evd.lock);
            param->evd_qlen = evd.qlen;
            param->evd_state = static_cast<DAT_EVD_STATE>(
                (evd.enabled ? DAT_EVD_STATE_ENABLED : DAT_EVD_STATE_DISABLED) |
                (evd.waitable ? DAT_EVD_STATE_WAITABLE : DAT_EVD_STATE_UNWAITABLE));
            param->cno_handle = evd.cno;
            param->evd_flags = evd.flags;
        });
}

/// Fails while a thread waits in dat_evd_wait or an object, such as an EP, uses the EVD.
DAT_RETURN evd_free(DAT_EVD_HANDLE evd_handle) noexcept {
    auto evd = handle_to<dapl_evd>(evd_handle);
    if (!evd)
        return invalid_handle(DAT_INVALID_HANDLE_EVD_REQUEST);
    {
        const std::lock_guard guard(evd->lock);
        if (evd->has_waiter)
            return invalid_state(DAT_INVALID_STATE_EVD_WAITER);
    }
    return free_object(std::move(evd), DAT_INVALID_STATE_EVD_IN_USE, destroy_evd);
}

void dapl_evd::cancel_waiter_locked() noexcept {
    if (!has_waiter)
        return;
    wait_canceled = true;
    signal_event_fd();
}

void dapl_evd::cancel_waiters() noexcept {
    const std::lock_guard guard(lock);
    cancel_waiter_locked();
}

void destroy_evd(dapl_evd *evd) noexcept {
    if (evd->cno != nullptr)
        dapl_ia::drop_ref(evd->cno->detach_evd(*evd));
    for (const DAT_EVENT &event : evd->queue)
        cm::drop_undelivered(event);
    {
        const std::lock_guard guard(objects_lock);
        if (evd->refs != 0) { // objects of other IAs
            evd->destroy_unreferenced = [](object *obj) noexcept {
                destroy_object(static_cast<dapl_evd *>(obj));
            };
            return;
        }
    }
    destroy_object(evd);
}

/// The EVD triggers this CNO from now on, or none for DAT_HANDLE_NULL.
DAT_RETURN evd_modify_cno(DAT_EVD_HANDLE evd_handle, DAT_CNO_HANDLE cno_handle) noexcept {
    const auto evd = handle_to<dapl_evd>(evd_handle);
    if (!evd)
        return invalid_handle(DAT_INVALID_HANDLE_EVD_REQUEST);
    dapl_cno *const new_cno = evd->ia->find_and_add_ref<dapl_cno>(cno_handle);
    if (new_cno == nullptr && cno_handle != DAT_HANDLE_NULL)
        return invalid_handle(DAT_INVALID_HANDLE_CNO);
    dapl_cno *old_cno = nullptr;
    if (new_cno == nullptr) {
        old_cno = dapl_cno::detach_evd(*evd);
    } else if (!new_cno->attach_evd(*evd, old_cno)) {
        dapl_ia::drop_ref(new_cno);
        return no_resources(DAT_RESOURCE_TEVD);
    }
    dapl_ia::drop_ref(old_cno);
    return DAT_SUCCESS;
}

namespace {

/// Calls fn(evd) under the EVD's lock.
template <class function>
DAT_RETURN with_locked_evd(DAT_EVD_HANDLE evd_handle, function &&fn) noexcept {
    const auto evd = handle_to<dapl_evd>(evd_handle);
    if (!evd)
        return invalid_handle(DAT_INVALID_HANDLE_EVD_REQUEST);
    const std::lock_guard guard(evd->lock);
    return fn(*evd);
}

} // namespace

DAT_RETURN evd_enable(DAT_EVD_HANDLE evd_handle) noexcept {
    return with_locked_evd(evd_handle, [](dapl_evd &evd) {
        evd.enabled = true;
        if (evd.cno != nullptr) {
            // Triggers for events that arrived while disabled.
            if (!evd.arm())
                return dat_error(DAT_INTERNAL_ERROR);
            if (evd.num_events() != 0)
                evd.signal_event_fd();
        }
        return DAT_RETURN{DAT_SUCCESS};
    });
}

DAT_RETURN evd_disable(DAT_EVD_HANDLE evd_handle) noexcept {
    return with_locked_evd(evd_handle, [](dapl_evd &evd) {
        evd.enabled = false;
        return DAT_RETURN{DAT_SUCCESS};
    });
}

DAT_RETURN evd_set_unwaitable(DAT_EVD_HANDLE evd_handle) noexcept {
    return with_locked_evd(evd_handle, [](dapl_evd &evd) {
        evd.waitable = false;
        evd.cancel_waiter_locked();
        return DAT_RETURN{DAT_SUCCESS};
    });
}

DAT_RETURN evd_clear_unwaitable(DAT_EVD_HANDLE evd_handle) noexcept {
    return with_locked_evd(evd_handle, [](dapl_evd &evd) {
        evd.waitable = true;
        return DAT_RETURN{DAT_SUCCESS};
    });
}

/// Completions are in the CQ until they are moved to the queue, so the CQ has the size of the EVD.
DAT_RETURN evd_resize(DAT_EVD_HANDLE evd_handle, DAT_COUNT qlen) noexcept {
    return with_locked_evd(evd_handle, [qlen](dapl_evd &evd) {
        if (qlen <= 0 || qlen > evd.ia->dev->attr.max_cqe)
            return invalid_parameter(2);
        if (evd.num_events() > static_cast<std::uint32_t>(qlen))
            return invalid_state(DAT_INVALID_STATE_EVD_IN_USE);
        if (!evd.cq) {
            evd.qlen = qlen;
            return DAT_RETURN{DAT_SUCCESS};
        }
        if (const int error = ibv_resize_cq(evd.cq.get(), evd.cq_size(qlen))) {
            // Some devices cannot resize: succeed if the CQ is large enough already.
            if (evd.cq_size(qlen) > evd.cq->cqe)
                return from_errno(error, DAT_RESOURCE_TEVD);
        }
        evd.set_qlen(qlen);
        return DAT_RETURN{DAT_SUCCESS};
    });
}

DAT_RETURN evd_post_se(DAT_EVD_HANDLE evd_handle, const DAT_EVENT *event) noexcept {
    const auto evd = handle_to<dapl_evd>(evd_handle);
    if (!evd || (evd->flags & DAT_EVD_SOFTWARE_FLAG) == 0)
        return !evd ? invalid_handle(DAT_INVALID_HANDLE_EVD_REQUEST) : invalid_parameter(1);
    if (event == nullptr || event->event_number != DAT_SOFTWARE_EVENT)
        return invalid_parameter(2);
    return evd->post(*event) ? DAT_SUCCESS : dat_error(DAT_QUEUE_FULL);
}

} // namespace coherdma::dapl

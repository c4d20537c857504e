// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Devices: queries and asynchronous events.

#include "fabric.hpp"
#include "operations.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

using namespace fake;

namespace {

/// The object of an event: its context, and the counter that destroying it waits for.
struct event_object {
    ibv_context *context = nullptr; ///< nullptr: a port or a device
    ack_count *acks = nullptr;
};

event_object object_of(const ibv_async_event &event) {
    switch (event.event_type) {
    case IBV_EVENT_CQ_ERR: {
        auto *const cq = static_cast<fake_cq *>(event.element.cq);
        return {.context = cq->context, .acks = &cq->errors};
    }
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED: {
        auto *const srq = static_cast<fake_srq *>(event.element.srq);
        return {.context = srq->context, .acks = &srq->errors};
    }
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED: {
        auto *const qp = static_cast<fake_qp *>(event.element.qp);
        return {.context = qp->context, .acks = &qp->errors};
    }
    default:
        return {};
    }
}

ibv_async_event make_event(ibv_event_type kind, void *element) {
    ibv_async_event event = {};
    event.event_type = kind;
    std::memcpy(&event.element, &element, sizeof element);
    return event;
}

} // namespace

namespace fake {

void fabric::queue_async_event(unsigned number, ibv_event_type kind, void *element) {
    const library_call_guard call;
    ibv_context *const context = object_of(make_event(kind, element)).context;
    for (fake_context *const it : contexts)
        if (context != nullptr ? it == context : it->dev == &devices.at(number))
            push_async_event(it, kind, element);
}

void fabric::push_async_event(ibv_context *context, ibv_event_type kind, void *element) {
    static_cast<fake_context *>(context)->async_events.push_back(make_event(kind, element));
    increment_eventfd(context->async_fd);
}

void fabric::drop_async_events(ibv_context *context, const void *object) {
    const auto num_dropped = std::erase_if(
        static_cast<fake_context *>(context)->async_events, [object](const ibv_async_event &it) {
            return object_of(it).context != nullptr && it.element.qp == object;
        });
    for (std::size_t i = 0; i != num_dropped; ++i)
        decrement_eventfd(context->async_fd);
}

} // namespace fake

extern "C" {

ibv_device **ibv_get_device_list(int *count) {
    const library_call_guard call;
    if (const int error = injected_error("ibv_get_device_list")) {
        errno = error;
        return nullptr;
    }
    auto **const list = new ibv_device *[3] {
    };
    list[0] = &get_fabric().devices[0].ibdev;
    list[1] = &get_fabric().devices[1].ibdev;
    if (count != nullptr)
        *count = 2;
    get_fabric().adjust_object_count("ibv_get_device_list", 1);
    return list;
}

void ibv_free_device_list(ibv_device **list) {
    const library_call_guard call;
    get_fabric().adjust_object_count("ibv_get_device_list", -1);
    delete[] list;
}

ibv_context *ibv_open_device(ibv_device *ibdev) {
    const library_call_guard call;
    if (const int error = injected_error("ibv_open_device")) {
        errno = error;
        return nullptr;
    }
    auto *const context = new fake_context{};
    context->device = ibdev;
    context->dev = &get_fabric().devices.at(ibdev == &get_fabric().devices[0].ibdev ? 0 : 1);
    context->num_comp_vectors = 1;
    context->async_fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
    operate(context->ops);
    get_fabric().contexts.insert(context);
    get_fabric().adjust_object_count("ibv_context", 1);
    return context;
}

int ibv_close_device(ibv_context *ibcontext) {
    const library_call_guard call;
    auto *const context = static_cast<fake_context *>(ibcontext);
    if (context->refs != 0)
        die("ibv_close_device while %d objects use it", context->refs);
    if (get_fabric().contexts.erase(context) == 0)
        die("ibv_close_device: no such context");
    close(context->async_fd);
    get_fabric().adjust_object_count("ibv_context", -1);
    delete context;
    return 0;
}

const char *ibv_get_device_name(ibv_device *ibdev) {
    return ibdev->name;
}

__be64 ibv_get_device_guid(ibv_device *ibdev) {
    return ibdev == &get_fabric().devices[0].ibdev ? 0x0807060504030201 : 0x1817161514131211;
}

int ibv_query_device(ibv_context *context, ibv_device_attr *attr) {
    const library_call_guard call;
    if (const int error = injected_error("ibv_query_device"))
        return error;
    *attr = get_fabric().device_of(context).attr;
    return 0;
}

// verbs.h calls this for contexts that are not extended, as the fake ones.
int(ibv_query_port)(ibv_context *context, std::uint8_t port, _compat_ibv_port_attr *attr) {
    const library_call_guard call;
    if (const int error = injected_error("ibv_query_port"))
        return error;
    if (port != 1)
        return EINVAL;
    std::memcpy(attr, &get_fabric().device_of(context).port_attr,
                offsetof(ibv_port_attr, port_cap_flags2));
    return 0;
}

int ibv_query_gid(ibv_context *context, std::uint8_t port, int index, ibv_gid *gid) {
    const library_call_guard call;
    if (const int error = injected_error("ibv_query_gid")) {
        errno = error;
        return -1;
    }
    if (port != 1 || index < 0 || index > 1)
        return -1;
    *gid = get_fabric().device_of(context).gids.at(static_cast<std::size_t>(index));
    return 0;
}

int _ibv_query_gid_ex(ibv_context *context, std::uint32_t port, std::uint32_t index,
                      ibv_gid_entry *entry, std::uint32_t, std::size_t) {
    const library_call_guard call;
    if (const int error = injected_error("ibv_query_gid_ex"))
        return error;
    if (port != 1 || index > 1)
        return EINVAL;
    *entry = {};
    entry->gid = get_fabric().device_of(context).gids.at(index);
    entry->gid_index = index;
    entry->port_num = port;
    return 0;
}

int ibv_get_async_event(ibv_context *context, ibv_async_event *event) {
    {
        const library_call_guard call;
        auto &events = static_cast<fake_context *>(context)->async_events;
        if (events.empty()) {
            if ((fcntl(context->async_fd, F_GETFL) & O_NONBLOCK) == 0)
                die("ibv_get_async_event would block");
            errno = EAGAIN;
            return -1;
        }
        if (const int error = injected_error("ibv_get_async_event")) {
            errno = error;
            return -1;
        }
        *event = events.front();
        events.pop_front();
        decrement_eventfd(context->async_fd);
        if (ack_count *const acks = object_of(*event).acks)
            ++acks->reported;
    }
    tsan_acquire(event->element.qp);
    return 0;
}

void ibv_ack_async_event(ibv_async_event *event) {
    tsan_release(event->element.qp);
    const library_call_guard call;
    if (ack_count *const acks = object_of(*event).acks)
        ++acks->acknowledged;
    get_fabric().changed.notify_all();
}
}

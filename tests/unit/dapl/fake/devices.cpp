// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Devices: queries and asynchronous events.

#include "fabric.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>

using namespace fake;

namespace {

/// The event counter that destroying the object waits for; nullptr for a port or a device.
ack_count *acks_of(const ibv_async_event &event) {
    switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
        return &static_cast<fake_cq *>(event.element.cq)->errors;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        return &static_cast<fake_srq *>(event.element.srq)->errors;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        return &static_cast<fake_qp *>(event.element.qp)->errors;
    default:
        return nullptr;
    }
}

} // namespace

namespace fake {

void fabric::queue_async_event(unsigned number, ibv_event_type kind, void *element) {
    {
        const library_call_guard call;
        queue_async_event(devices.at(number), kind, element);
    }
}

void fabric::queue_async_event(fake_device &dev, ibv_event_type kind, void *element) {
    ibv_async_event event = {};
    event.event_type = kind;
    std::memcpy(&event.element, &element, sizeof element);
    dev.async_events.push_back(event);
    increment_eventfd(dev.ctx.async_fd);
}

} // namespace fake

extern "C" {

ibv_context **rdma_get_devices(int *count) {
    const library_call_guard call;
    if (const int error = injected_error("rdma_get_devices")) {
        errno = error;
        return nullptr;
    }
    auto **const list = new ibv_context *[3] {
    };
    list[0] = &get_fabric().devices[0].ctx;
    list[1] = &get_fabric().devices[1].ctx;
    if (count != nullptr)
        *count = 2;
    get_fabric().adjust_object_count("rdma_get_devices", 1);
    return list;
}

void rdma_free_devices(ibv_context **list) {
    const library_call_guard call;
    get_fabric().adjust_object_count("rdma_get_devices", -1);
    delete[] list;
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
        fake_device &dev = get_fabric().device_of(context);
        if (dev.async_events.empty()) {
            if ((fcntl(dev.ctx.async_fd, F_GETFL) & O_NONBLOCK) == 0)
                die("ibv_get_async_event would block");
            errno = EAGAIN;
            return -1;
        }
        if (const int error = injected_error("ibv_get_async_event")) {
            errno = error;
            return -1;
        }
        *event = dev.async_events.front();
        dev.async_events.pop_front();
        decrement_eventfd(dev.ctx.async_fd);
        if (ack_count *const acks = acks_of(*event))
            ++acks->reported;
    }
    tsan_acquire(event->element.qp);
    return 0;
}

void ibv_ack_async_event(ibv_async_event *event) {
    tsan_release(event->element.qp);
    const library_call_guard call;
    if (ack_count *const acks = acks_of(*event))
        ++acks->acknowledged;
    get_fabric().changed.notify_all();
}
}

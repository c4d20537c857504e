// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The devices, what they are asked, and what they tell by themselves.

#include "fabric.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>

using namespace played;

namespace {

/// Who is waited for when an object ends: its own errors, or nullptr for a port or a device.
told *told_of(const ibv_async_event &event) {
    switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
        return &static_cast<cq *>(event.element.cq)->errors;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        return &static_cast<srq *>(event.element.srq)->errors;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        return &static_cast<qp *>(event.element.qp)->errors;
    default:
        return nullptr;
    }
}

} // namespace

namespace played {

void fabric::report(unsigned number, ibv_event_type kind, void *element) {
    {
        const entered call;
        report(devices.at(number), kind, element);
    }
}

void fabric::report(hardware &from, ibv_event_type kind, void *element) {
    ibv_async_event event = {};
    event.event_type = kind;
    std::memcpy(&event.element, &element, sizeof element);
    from.news.push_back(event);
    tick(from.open.async_fd);
}

} // namespace played

extern "C" {

ibv_context **rdma_get_devices(int *count) {
    const entered call;
    if (const int error = fault("rdma_get_devices")) {
        errno = error;
        return nullptr;
    }
    auto **const list = new ibv_context *[3] {
    };
    list[0] = &net().devices[0].open;
    list[1] = &net().devices[1].open;
    if (count != nullptr)
        *count = 2;
    net().living("rdma_get_devices", 1);
    return list;
}

void rdma_free_devices(ibv_context **list) {
    const entered call;
    net().living("rdma_get_devices", -1);
    delete[] list;
}

const char *ibv_get_device_name(ibv_device *of) {
    return of->name;
}

__be64 ibv_get_device_guid(ibv_device *of) {
    return of == &net().devices[0].handle ? 0x0807060504030201 : 0x1817161514131211;
}

int ibv_query_device(ibv_context *context, ibv_device_attr *attr) {
    const entered call;
    if (const int error = fault("ibv_query_device"))
        return error;
    *attr = net().of(context).limits;
    return 0;
}

// The old form: for contexts that are not extended, as ours, the header calls it.
int(ibv_query_port)(ibv_context *context, std::uint8_t port, _compat_ibv_port_attr *attr) {
    const entered call;
    if (const int error = fault("ibv_query_port"))
        return error;
    if (port != 1)
        return EINVAL;
    std::memcpy(attr, &net().of(context).port, offsetof(ibv_port_attr, port_cap_flags2));
    return 0;
}

int ibv_query_gid(ibv_context *context, std::uint8_t port, int index, ibv_gid *gid) {
    const entered call;
    if (const int error = fault("ibv_query_gid")) {
        errno = error;
        return -1;
    }
    if (port != 1 || index < 0 || index > 1)
        return -1;
    *gid = net().of(context).gids.at(static_cast<std::size_t>(index));
    return 0;
}

int _ibv_query_gid_ex(ibv_context *context, std::uint32_t port, std::uint32_t index,
                      ibv_gid_entry *entry, std::uint32_t, std::size_t) {
    const entered call;
    if (const int error = fault("ibv_query_gid_ex"))
        return error;
    if (port != 1 || index > 1)
        return EINVAL;
    *entry = {};
    entry->gid = net().of(context).gids.at(index);
    entry->gid_index = index;
    entry->port_num = port;
    return 0;
}

int ibv_get_async_event(ibv_context *context, ibv_async_event *event) {
    {
        const entered call;
        hardware &of = net().of(context);
        if (of.news.empty()) {
            if ((fcntl(of.open.async_fd, F_GETFL) & O_NONBLOCK) == 0)
                die("ibv_get_async_event sleeps");
            errno = EAGAIN;
            return -1;
        }
        if (const int error = fault("ibv_get_async_event")) {
            errno = error;
            return -1;
        }
        *event = of.news.front();
        of.news.pop_front();
        untick(of.open.async_fd);
        if (told *const about = told_of(*event))
            ++about->reported;
    }
    take_order(event->element.qp);
    return 0;
}

void ibv_ack_async_event(ibv_async_event *event) {
    give_order(event->element.qp);
    const entered call;
    if (told *const about = told_of(*event))
        ++about->acknowledged;
    net().changed.notify_all();
}
}

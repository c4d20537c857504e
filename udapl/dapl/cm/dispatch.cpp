// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// From librdmacm's channel to whom it concerns.

#include "connection.hpp"

#include <algorithm>
#include <cstring>

namespace coherdma::dapl::cm {

namespace {

struct final_dispatcher final : watcher {
    void ready() noexcept override {
        rdma_cm_event *event = nullptr;
        while (rdma_get_cm_event(events::channel(), &event) == 0) {
            // A request is the listener's event, though it has an id of its own already.
            rdma_cm_id *const about =
                event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? event->listen_id : event->id;
            if (about->context != nullptr)
                static_cast<party *>(about->context)->happened(*event);
            rdma_ack_cm_event(event);
        }
    }
};

} // namespace

watcher &dispatcher() noexcept {
    static constinit final_dispatcher one;
    return one;
}

std::uint16_t port_of(DAT_CONN_QUAL qualifier) noexcept {
    return static_cast<std::uint16_t>(qualifier <= 0xffff ? qualifier : qualifier % 32001 + 33534);
}

connection::~connection() {
    // These first: the event that is being handled may be one's, and its handler may use the last.
    for (rdma_cm_id *const each : spent)
        if (each != nullptr)
            rdma_destroy_id(each);
    if (id != nullptr)
        rdma_destroy_id(id);
}

void connection::happened(rdma_cm_event &event) noexcept {
    if (event.event == RDMA_CM_EVENT_DISCONNECTED || event.event == RDMA_CM_EVENT_TIMEWAIT_EXIT ||
        event.event == RDMA_CM_EVENT_DEVICE_REMOVAL)
        goodbye_answered(*this);
    ep *const one = of.load(std::memory_order_acquire);
    if (one != nullptr) {
        step(*one, *this, event);
        return;
    }
    switch (event.event) {
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_DISCONNECTED:
        vanished.store(true, std::memory_order_release);
        break;
    default:
        break;
    }
}

} // namespace coherdma::dapl::cm

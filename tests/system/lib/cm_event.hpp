// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Events of librdmacm, for test programs.

#pragma once

#include "verbs.hpp"

#include <poll.h>
#include <rdma/rdma_cma.h>

namespace verbs_test {

/// Waits for the next event, which must be the expected one, and returns its id. timeout_ms: -1 for
/// no limit.
inline rdma_cm_id *expect_event(rdma_event_channel &events, rdma_cm_event_type expected,
                                int timeout_ms = -1) {
    pollfd poll_fd{.fd = events.fd, .events = POLLIN, .revents = 0};
    if (poll(&poll_fd, 1, timeout_ms) <= 0)
        throw failure(concat("did not get ", rdma_event_str(expected)));
    rdma_cm_event *event = nullptr;
    check(rdma_get_cm_event(&events, &event), "CM event");
    const rdma_cm_event_type type = event->event;
    rdma_cm_id *const id = event->id;
    rdma_ack_cm_event(event);
    if (type != expected)
        throw failure(
            concat("expected ", rdma_event_str(expected), ", got ", rdma_event_str(type)));
    return id;
}

} // namespace verbs_test

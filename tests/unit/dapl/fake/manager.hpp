// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// rdma_cm_ids with their kernel state.
#pragma once

#include "fabric.hpp"

#include <cstdint>

namespace fake {

enum class id_state {
    created,
    bound,
    resolved,
    routed,
    listening,
    connect_sent,     ///< the request was sent
    request_received, ///< created for a request of the peer
    accepted,         ///< accepted; no RTU received
    connected,
    disconnecting, ///< DREQ sent
    closed,
};

struct fake_cm_id : rdma_cm_id {
    id_state state = id_state::created;
    fake_cm_id *peer = nullptr;
    const fake_cm_id *listener = nullptr; ///< of a request
    bool delivered = false; ///< to the code under test; false: a request that is not read yet
    std::uint32_t qp_num = 0;
    std::uint8_t traffic_class = 0; ///< of its requests
    rdma_conn_param conn_param = {};
    ack_count events;
};

struct fake_cm_event : rdma_cm_event {
    fake::fake_cm_id *ack_id = nullptr; ///< rdma_destroy_id of this id waits for the acknowledgment
    std::vector<unsigned char> data;
};

using bytes = std::vector<unsigned char>;

/// Queues a CM event, with the lock held.
void queue_event(fake::fake_cm_id &id, rdma_cm_event_type kind, int status = 0, bytes data = {},
                 const rdma_conn_param *param = nullptr);
void queue_event(fake_cm_event *event);
/// Drops the id's queued events.
void drop_events(const fake::fake_cm_id &id);

/// Ends the id's connection in the kernel and notifies the peer.
void close_connection(fake::fake_cm_id &id);
/// iWARP: ends the connection of a QP that failed.
void fail_connection(std::uint32_t number);

/// An iWARP id, or the id with this QP, waits for the peer's answer.
bool is_unanswered(const fake::fake_cm_id &id);
bool is_unanswered(std::uint32_t qp_num);

/// The device with this address, or nullptr.
fake_device *find_device(const sockaddr &address);
bool is_local(const sockaddr &address);
/// The address is in the subnet of an interface.
bool has_route(const sockaddr &address);
std::uint16_t get_port(const sockaddr &address);
void set_port(sockaddr &address, std::uint16_t port);
bool same_host(const sockaddr &a, const sockaddr &b);

} // namespace fake

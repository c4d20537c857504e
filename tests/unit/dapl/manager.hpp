// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// librdmacm's ids, and what the kernel knows of them.
#pragma once

#include "fabric.hpp"

#include <cstdint>

namespace played {

enum class stage {
    made,
    bound,
    resolved,
    routed,
    listening,
    asking,   ///< its request is at the peer
    asked,    ///< it is the peer's request
    answered, ///< accepted; the other has yet to say that it is ready
    connected,
    leaving, ///< it has said goodbye
    over,
};

struct id : rdma_cm_id {
    stage at = stage::made;
    id *peer = nullptr;
    bool is_program = false;  ///< a program has it; a request it has yet to hear of
    std::uint32_t number = 0; ///< of its queue pair
    rdma_conn_param with = {};
    told events;
};

struct happening : rdma_cm_event {
    played::id *counts = nullptr; ///< whose it is to be acknowledged
    std::vector<unsigned char> data;
};

using bytes = std::vector<unsigned char>;

/// An event for the program, with guard held.
void emit(played::id &about, rdma_cm_event_type kind, int status = 0, bytes data = {},
          const rdma_conn_param *with = nullptr);
void emit(happening *made);
/// What it would have heard.
void forget_events(const played::id &about);

/// The kernel's side of a connection ends.
void leave(played::id &one);
/// iWARP: the pair of this number has failed, and its connection with it.
void lost(std::uint32_t number);

/// An address of this machine with RDMA, or nullptr.
hardware *device_at(const sockaddr &address);
bool is_here(const sockaddr &address);
std::uint16_t port_of(const sockaddr &address);
void set_port(sockaddr &address, std::uint16_t port);
bool same_host(const sockaddr &one, const sockaddr &other);

} // namespace played

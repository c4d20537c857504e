// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Addresses of this machine and of peers, and ids of librdmacm.
#pragma once

#include "handle.hpp"

namespace coherdma::rpma {

enum class side { active, passive };

/// Resolves an address or host name, and a port, which may be NULL. 0, or an RPMA_E_* value.
int get_addrinfo(const char *addr, const char *port, side side, unique_addrinfo &result) noexcept;
/// channel: of the id's events; nullptr: calls wait for them. 0, or an RPMA_E_* value.
int create_id(rdma_event_channel *channel, unique_id &id) noexcept;
/// Binds the id to the address of this machine.
int bind_address(rdma_cm_id &id, const rdma_addrinfo &info) noexcept;
/// Resolves the route to the peer's address, and binds the id to the device.
int resolve_address(rdma_cm_id &id, const rdma_addrinfo &info, int timeout_ms) noexcept;

} // namespace coherdma::rpma

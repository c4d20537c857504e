// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Requests between the processes of one user on this host that emulate devices
// (core/peers/peer_slots.hpp). Each publishes its rkeys. Before a process posts a WR that accesses
// memory of another, it has that process check its lines: so the owner sees them as the WR will.
#pragma once

#include "core/peers/peer_slots.hpp"
#include "devices.hpp"

#include <cstdint>

namespace coherdma::emulation::peer_ipc {

/// Takes a slot for this process and starts the thread that answers. If there is none, a note says
/// so, and nothing is checked across processes.
void open_slot();
/// Before the process ends: requests to it fail from now on. Those that it has checked are
/// reported.
void close_slot() noexcept;

/// In a child of fork(): the slot is the parent's.
void reset_after_fork();

/// Must be called without the mutexes of devices.hpp: the thread that answers takes them while
/// a peer waits for it.
void publish_rkey(const emulated_device &, std::uint32_t rkey, const keyed_memory &);
void withdraw_rkey(const emulated_device &, std::uint32_t rkey) noexcept;

/// If exactly one other process has this memory: has it check the memory, and waits for the answer:
/// for seconds if that process is stopped. Returns the place of what the check has left there.
peer_slots::ticket request_check(const remote_memory &, ibv_wr_opcode, const mem_access &);
/// The request was posted, or was not: the owner reports what it has found, or drops it.
void end_request(const peer_slots::ticket &, bool is_posted) noexcept;

} // namespace coherdma::emulation::peer_ipc

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Communication between the processes of one user on this host that emulate devices. Each publishes
// its rkeys. Before a process posts a WR that accesses memory of another, it sends that process a
// request; the owner checks its lines and answers, and only then is the WR posted. So the owner
// sees the lines as the WR will.
#pragma once

#include "devices.hpp"

#include <cstdint>

namespace coherdma::emulation::peer_ipc {

/// Takes a slot for this process and starts the thread that answers. If there is none, a note says
/// so, and nothing is checked across processes.
void open_slot();
/// Before the process ends: requests to it fail from now on.
void close_slot() noexcept;

/// In a child of fork(): the slot is the parent's.
void reset_after_fork();

/// Must be called without the mutexes of devices.hpp: the thread that answers takes them while
/// a peer waits for it.
void publish_rkey(std::uint32_t driver_number, std::uint32_t rkey, const keyed_memory &);
void withdraw_rkey(std::uint32_t driver_number, std::uint32_t rkey) noexcept;

/// If exactly one other process has this memory: has it check the memory, and waits for the answer:
/// for seconds if that process, or another one with a request for it, is stopped.
void request_check(std::uint32_t driver_number, std::uint32_t rkey, std::uint64_t remote_addr,
                   std::uint64_t length, ibv_wr_opcode, const mem_access &);

} // namespace coherdma::emulation::peer_ipc

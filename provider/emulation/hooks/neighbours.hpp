// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Processes on this host that play devices, of the same user: each knows which registered memory is
// whose, and tells the owner of a request on it before it posts it. The owner looks at its lines
// and answers; only then the request is posted, so what it saw is what the request will meet.
#pragma once

#include "played.hpp"

#include <cstdint>

namespace coherdma::emulation::neighbours {

/// Registers this process, and answers from now on, by a thread. Without a place for it, nothing
/// is known between processes, which is noted.
void join();
/// No questions any more. Before the process ends.
void leave() noexcept;

/// In a copy of this process: the desk is the other's.
void begin_anew();

/// Without a lock that find() and its like take: somebody may be asking just now.
void publish(rdma_driver_id, std::uint32_t key, const place &);
void withdraw(rdma_driver_id, std::uint32_t key) noexcept;

/// Asks the one process that has such memory, if there is one and only one, and waits for it, but
/// not for long.
void tell(rdma_driver_id, std::uint32_t key, std::uint64_t remote, std::uint64_t length,
          ibv_wr_opcode, const deed &);

} // namespace coherdma::emulation::neighbours

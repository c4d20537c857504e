// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The doorbell: the system call that has the kernel process a send queue. It covers all WQEs that
// any thread published before it, and may carry out whole transfers, so no lock is held over it.
//
// Doorbells on one SQ are coalesced: a thread that finds one in progress sets PENDING and returns;
// the thread in the system call rings again before it sets IDLE.
#pragma once

#include <cstdint>
#include <infiniband/verbs.h>

namespace coherdma::provider {

/// Returns 0 or an errno. Not a pthread cancellation point, since the state may be BUSY.
int ring_doorbell(const ibv_qp &qp, std::uint32_t driver_id) noexcept;

class doorbell {
  public:
    /// Returns 0 or an errno; also 0 if another thread rings.
    int ring(const ibv_qp &qp, std::uint32_t driver_id) noexcept;

  private:
    enum : std::uint32_t { IDLE, BUSY, PENDING };

    [[gnu::noinline, gnu::cold]] bool acquire_or_set_pending(std::uint32_t state) noexcept;
    [[gnu::noinline, gnu::cold]] void ring_until_idle(const ibv_qp &qp,
                                                      std::uint32_t driver_id) noexcept;

    std::uint32_t state_;
};

} // namespace coherdma::provider

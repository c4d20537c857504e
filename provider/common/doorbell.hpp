// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The doorbell: the system call that has the kernel process an SQ. The kernel may carry out whole
// transfers in it.
//
// Doorbells on one SQ are coalesced:
// - A doorbell covers all WQEs that any thread published before it.
// - A thread that finds IDLE sets BUSY and rings.
// - A thread that finds BUSY sets PENDING and returns.
// - The thread that rang sets IDLE. If it finds PENDING, it rings once more, for the others: so no
//   post rings more than twice, however often others post.
//
// An error of the second ring is returned as well: the threads that set PENDING have returned 0.
// siw: retry_doorbell() in siw/post.cpp handles a doorbell that fails, check_wqe_taken() in
// siw/qp.cpp one after which the kernel has not taken the WQE.
#pragma once

#include <cstdint>
#include <infiniband/verbs.h>

namespace coherdma::provider {

/// Returns 0 or an errno.
int ring_doorbell(const ibv_qp &qp, std::uint32_t driver_id) noexcept;

class doorbell {
  public:
    /// Returns 0 or the errno of this thread's last ring, which is also for threads that have
    /// returned 0. If another thread is ringing, returns 0: that thread rings again.
    int ring_coalesced(const ibv_qp &qp, std::uint32_t driver_id) noexcept;

  private:
    enum : std::uint32_t { IDLE, BUSY, PENDING };

    /// Returns true if this thread has to ring, false if another thread does.
    [[gnu::noinline, gnu::cold]] bool acquire_or_set_pending(std::uint32_t state) noexcept;

    std::uint32_t state_;
};

} // namespace coherdma::provider

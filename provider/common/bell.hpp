// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The system call that has the kernel look at a queue of requests to send. It covers whatever is
// published when it begins, by whichever thread, and may carry out whole transfers, so it is made
// outside of turns. Two at a time for one queue would only get into each other's way: who comes
// while another thread rings leaves word, and that thread rings once more.
//
// Ordering. Who publishes does so before it looks at the state; who rings changes the state before
// it makes the system call. All of this is sequentially consistent, so either the one finds that
// nobody is ringing, or the other finds the word left and rings after it.
#pragma once

#include <cstdint>
#include <infiniband/verbs.h>

namespace coherdma::provider {

/// 0, or an errno. Not a point of cancellation: a thread must not go with the bell in its hand.
int ring_bell(const ibv_qp &qp, std::uint32_t driver) noexcept;

class bell {
  public:
    /// 0, or an errno; also 0 if somebody else will ring.
    int ring(const ibv_qp &qp, std::uint32_t driver) noexcept;

  private:
    enum : std::uint32_t { silent, ringing, once_more };

    [[gnu::noinline, gnu::cold]] bool ours_after_all(std::uint32_t seen) noexcept;
    [[gnu::noinline, gnu::cold]] void ring_again(const ibv_qp &qp, std::uint32_t driver) noexcept;

    std::uint32_t state_;
};

} // namespace coherdma::provider

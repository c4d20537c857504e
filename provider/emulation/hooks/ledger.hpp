// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What requests are about whose completions are to come. The driver gets a number of ours as each
// request's id, and the program its own again when it polls.
#pragma once

#include "core/store.hpp"

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

namespace coherdma::emulation {

struct request {
    std::uint64_t id = 0;        ///< the program's
    const void *queue = nullptr; ///< whose: an ibv_qp, or an ibv_srq
    bool sent = false;           ///< not received
    bool signalled = true;
    std::vector<span> sinks; ///< where its data arrive
};

/// Safe for threads.
class ledger {
  public:
    ledger();
    std::uint64_t add(request);
    /// Where its data arrive, if that is known later.
    void set_sinks(std::uint64_t number, std::vector<span> sinks);
    /// It was not posted after all.
    void cancel(std::uint64_t number);
    /// It is complete. With it are those before it in its queue that say nothing of their end:
    /// they are given to it, too, first.
    std::vector<request> take(std::uint64_t number);
    /// The queue is no more, or starts over.
    void drop(const void *queue);

  private:
    std::mutex guard_;
    std::uint64_t next_; ///< from a number that no program begins with
    std::unordered_map<std::uint64_t, request> open_;
    std::unordered_map<const void *, std::deque<std::uint64_t>>
        silent_; ///< not signalled, by queue
};

} // namespace coherdma::emulation

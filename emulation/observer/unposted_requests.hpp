// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the checks of requests have left that are about to be posted.
#pragma once

#include "core/cache/cache_model.hpp"
#include "core/peers/peer_slots.hpp"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace coherdma::emulation {

/// Of one request: in this process, and in another one.
struct request_checks {
    unposted_checks local;
    peer_slots::ticket peers;

    [[nodiscard]] bool is_empty() const noexcept { return local.is_empty() && peers.number == 0; }
};

/// By the number of the request. Thread-safe.
class unposted_requests {
  public:
    void add(const void *queue, std::uint64_t number, request_checks checks) {
        const std::lock_guard guard(mutex_);
        requests_.insert_or_assign(number, entry{queue, std::move(checks)});
        count_.store(requests_.size(), std::memory_order_relaxed);
    }
    /// Removes it; empty: the checks have left nothing.
    request_checks take(std::uint64_t number) {
        // The thread that added it takes it: it sees its own store, or a later one.
        if (count_.load(std::memory_order_relaxed) == 0)
            return {};
        const std::lock_guard guard(mutex_);
        auto node = requests_.extract(number);
        count_.store(requests_.size(), std::memory_order_relaxed);
        return node ? std::move(node.mapped().checks) : request_checks();
    }
    /// Those of a queue that is being destroyed: none of them will be posted.
    std::vector<request_checks> take_queue(const void *queue) {
        std::vector<request_checks> taken;
        const std::lock_guard guard(mutex_);
        for (auto it = requests_.begin(); it != requests_.end();) {
            if (it->second.queue != queue) {
                ++it;
                continue;
            }
            taken.push_back(std::move(it->second.checks));
            it = requests_.erase(it);
        }
        count_.store(requests_.size(), std::memory_order_relaxed);
        return taken;
    }

  private:
    struct entry {
        const void *queue;
        request_checks checks;
    };
    std::mutex mutex_;
    std::unordered_map<std::uint64_t, entry> requests_;
    std::atomic<std::size_t> count_ = 0;
};

} // namespace coherdma::emulation

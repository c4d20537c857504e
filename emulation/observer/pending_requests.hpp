// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What the device writes for the program's own work requests that are posted and not complete.
#pragma once

#include "core/findings/finding_log.hpp"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace coherdma::emulation {

struct pending_request {
    const void *queue = nullptr;   ///< an ibv_qp or ibv_srq
    std::vector<addr_range> sinks; ///< local memory that it writes
    mem_access description;        ///< set if the program syncs local memory
    bool is_reported = false;      ///< a finding was that a sink was not synced
};

/// By the numbers of the requests. Thread-safe.
class pending_requests {
  public:
    void add(std::uint64_t number, pending_request added) {
        const std::lock_guard guard(mutex_);
        requests_.insert_or_assign(number, std::move(added));
        last_number_ = std::max(last_number_, number);
    }
    /// Removes it; nullopt: it writes nothing, or its queue was removed.
    std::optional<pending_request> take(std::uint64_t number) {
        const std::lock_guard guard(mutex_);
        auto node = requests_.extract(number);
        return node ? std::optional(std::move(node.mapped())) : std::nullopt;
    }
    /// All requests so far have smaller numbers than those that come.
    std::uint64_t last_number() {
        const std::lock_guard guard(mutex_);
        return last_number_;
    }
    /// Those up to this number, of a queue that was destroyed or reset.
    void remove_queue(const void *queue, std::uint64_t last_number) {
        const std::lock_guard guard(mutex_);
        std::erase_if(requests_, [=](const auto &entry) {
            return entry.second.queue == queue && entry.first <= last_number;
        });
    }

  private:
    std::mutex mutex_;
    std::unordered_map<std::uint64_t, pending_request> requests_;
    std::uint64_t last_number_ = 0;
};

} // namespace coherdma::emulation

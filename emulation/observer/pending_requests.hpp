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
    std::vector<addr_range> sinks; ///< local memory that it writes
    mem_access description;        ///< set if the program syncs local memory
    bool is_reported = false;      ///< a finding was that a sink was not synced
};

/// By queue and number of the request. Thread-safe.
class pending_requests {
  public:
    void add(const void *queue, std::uint64_t number, pending_request added) {
        const std::lock_guard guard(mutex_);
        queues_[queue].insert_or_assign(number, std::move(added));
        last_number_ = std::max(last_number_, number);
    }
    /// Removes it; nullopt: it writes nothing, or its queue was removed.
    std::optional<pending_request> take(const void *queue, std::uint64_t number) {
        const std::lock_guard guard(mutex_);
        const auto it = queues_.find(queue);
        if (it == queues_.end())
            return std::nullopt;
        auto node = it->second.extract(number);
        return node ? std::optional(std::move(node.mapped())) : std::nullopt;
    }
    /// All requests so far have numbers up to this, and those that come have greater ones.
    std::uint64_t last_number() {
        const std::lock_guard guard(mutex_);
        return last_number_;
    }
    /// Those up to this number, of a queue that was destroyed or reset.
    void remove_queue(const void *queue, std::uint64_t last_number) {
        const std::lock_guard guard(mutex_);
        const auto it = queues_.find(queue);
        if (it == queues_.end())
            return;
        std::erase_if(it->second, [=](const auto &entry) { return entry.first <= last_number; });
        if (it->second.empty())
            queues_.erase(it);
    }

  private:
    std::mutex mutex_;
    std::unordered_map<const void *, std::unordered_map<std::uint64_t, pending_request>> queues_;
    std::uint64_t last_number_ = 0;
};

} // namespace coherdma::emulation

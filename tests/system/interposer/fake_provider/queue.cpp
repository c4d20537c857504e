// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "queue.hpp"

#include "objects.hpp"

#include <algorithm>
#include <bit>
#include <map>

namespace fake {
namespace {

std::uint64_t last_id = 0;

/// Never destroyed: other threads poll while one is in exit().
std::map<std::uint64_t, slot_queue *> &queues() {
    static auto &created = *new std::map<std::uint64_t, slot_queue *>;
    return created;
}

} // namespace

slot_queue::slot_queue(bool is_send_queue)
    : is_send_queue_(is_send_queue) {
    const std::lock_guard guard(lock);
    id_ = ++last_id;
    queues()[id_] = this;
}

slot_queue::~slot_queue() {
    const std::lock_guard guard(lock);
    queues().erase(id_);
}

void slot_queue::set_depth(std::uint32_t depth) noexcept {
    constexpr std::uint32_t MIN_DEPTH = 4;
    depth_ = std::bit_ceil(std::max(depth, MIN_DEPTH));
}

void slot_queue::reset() {
    queues().erase(id_);
    id_ = ++last_id;
    queues()[id_] = this;
    posted_ = released_ = 0;
}

void slot_queue::release(std::uint64_t queue_id, std::uint64_t slot_number) {
    const auto entry = queues().find(queue_id);
    if (entry == queues().end())
        return;
    slot_queue &queue = *entry->second;
    // Unsignaled requests have no completion. Receives of an SRQ complete in another order.
    queue.released_ = queue.is_send_queue_ ? slot_number + 1 : queue.released_ + 1;
}

} // namespace fake

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "event_history.hpp"

#include <algorithm>

namespace coherdma::emulation {
namespace {

bool is_same_access(const mem_access &first, const mem_access &second) {
    const auto frames_begin = first.stack.frames.begin();
    return first.stack.depth == second.stack.depth && first.peer_stack == second.peer_stack &&
           std::equal(frames_begin, frames_begin + first.stack.depth, second.stack.frames.begin());
}

bool is_same_event(const history_event &first, const history_event &second) {
    return first.kind == second.kind && first.bytes == second.bytes && first.runs == second.runs &&
           is_same_access(first.access, second.access);
}

} // namespace

/// Adds an event, in place of the oldest one if there are CAPACITY. The caller adds the lines.
history_event &event_history::add(event_kind kind, addr_range bytes, const mem_access &access) {
    if (next_ == ring_.size())
        ring_.emplace_back();
    history_event &event = ring_[next_];
    next_ = (next_ + 1) % CAPACITY;
    size_ = std::min(size_ + 1, CAPACITY);
    event.kind = kind;
    event.number = ++last_number_;
    event.bytes = bytes;
    event.time_us =
        static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                       std::chrono::steady_clock::now() - start_)
                                       .count());
    event.count = 1;
    event.access = access;
    event.runs.clear(); // keeps its memory
    return event;
}

/// If the last event differs from the one before in its time only: counts it there.
void event_history::merge_last() {
    if (size_ < 2 || !is_same_event(last(0), last(1)))
        return;
    next_ = (next_ + CAPACITY - 1) % CAPACITY;
    --size_;
    ++ring_[(next_ + CAPACITY - 1) % CAPACITY].count;
}

/// The last max_count events on any of these lines, oldest first.
std::vector<const history_event *> event_history::find_last(addr_range lines,
                                                            std::size_t max_count) const {
    std::vector<const history_event *> events;
    for (std::size_t i = 0; i < size_ && events.size() < max_count; ++i)
        if (!intersection(last(i).bytes, lines).empty())
            events.push_back(&last(i));
    std::reverse(events.begin(), events.end());
    return events;
}

const history_event &event_history::last(std::size_t index) const noexcept {
    return ring_[(next_ + CAPACITY - 1 - index) % CAPACITY];
}

const char *state_name(line_state state) noexcept {
    switch (state) {
    case line_state::CLEAN:
        return "clean";
    case line_state::DIRTY:
        return "dirty";
    case line_state::STALE:
        return "stale";
    case line_state::CONFLICT:
        return "conflict";
    }
    return "?";
}

const char *event_name(event_kind kind) noexcept {
    switch (kind) {
    case event_kind::REG_MR:
        return "reg_mr";
    case event_kind::SYNC_WRITEBACK:
        return "sync_writeback";
    case event_kind::SYNC_INVALIDATE:
        return "sync_invalidate";
    case event_kind::SYNC_FOR_DEVICE:
        return "sync_for_device";
    case event_kind::SYNC_FOR_CPU:
        return "sync_for_cpu";
    case event_kind::POST_SOURCE:
        return "post_source";
    case event_kind::POST_SINK:
        return "post_sink";
    case event_kind::COMPLETE_SINK:
        return "complete_sink";
    case event_kind::REQUEST_SOURCE:
        return "request_source";
    case event_kind::REQUEST_SINK:
        return "request_sink";
    case event_kind::REQUEST_COMPLETE:
        return "request_complete";
    case event_kind::PEER_RDMA_READ:
        return "peer_rdma_read";
    case event_kind::PEER_RDMA_WRITE:
        return "peer_rdma_write";
    case event_kind::PEER_ATOMIC:
        return "peer_atomic";
    case event_kind::DATA_RECEIVED:
        return "data_received";
    case event_kind::EVICT_WRITEBACK:
        return "evict_writeback";
    case event_kind::EVICT_FETCH:
        return "evict_fetch";
    case event_kind::DEREG_MR:
        return "dereg_mr";
    case event_kind::EXIT:
        return "exit";
    }
    return "?";
}

} // namespace coherdma::emulation

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The latest events on registered memory: syncs, work requests, moves of the mode. Findings have
// those on their lines. Stores of the CPU are no events: the next event finds the line dirty.
#pragma once

#include "finding_log.hpp"

#include <chrono>
#include <cstdint>
#include <vector>

namespace coherdma::emulation {

/// Which copies have changed since both were last equal.
enum class line_state : std::uint8_t {
    CLEAN,
    DIRTY,    ///< the program's
    STALE,    ///< the device's
    CONFLICT, ///< both
};
const char *state_name(line_state) noexcept;

enum class event_kind : std::uint8_t {
    REG_MR,
    SYNC_WRITEBACK,
    SYNC_INVALIDATE,
    SYNC_FOR_DEVICE,
    SYNC_FOR_CPU,
    POST_SOURCE,    ///< the program posts a WR; the device will read this local memory
    POST_SINK,      ///< the program posts a WR; the device will write this local memory
    COMPLETE_SINK,  ///< and has written it: the program polls the completion
    REQUEST_SOURCE, ///< POST_SOURCE, POST_SINK and COMPLETE_SINK of memory that the program syncs
    REQUEST_SINK,   ///< itself: these move no line
    REQUEST_COMPLETE,
    PEER_RDMA_READ,  ///< a peer is about to post a WR that reads this memory,
    PEER_RDMA_WRITE, ///< writes it,
    PEER_ATOMIC,     ///< or does both
    DATA_RECEIVED,   ///< the program polls a completion with data, the first one since a peer's
                     ///< request that writes this memory: it may know of it from here on
    EVICT_WRITEBACK, ///< the mode copies a line to the device
    EVICT_FETCH,     ///< or to the program
    DEREG_MR,
    EXIT, ///< the process ends
};
/// "sync_writeback"
const char *event_name(event_kind) noexcept;

struct history_event {
    /// Adjacent lines that the event found in one state, before it changed them.
    struct line_run {
        addr_range lines;
        line_state state;
        bool operator==(const line_run &) const = default;
    };

    static constexpr std::size_t MAX_RUNS = 32;
    event_kind kind = event_kind::EXIT;
    std::uint64_t number = 0; ///< of all events of the process, from 1
    addr_range bytes;
    std::uint64_t time_us = 0; ///< since the history began
    std::uint64_t count = 1;   ///< of equal events in succession; time_us is that of the first
    mem_access access;         ///< text is "" if the kind says all
    std::vector<line_run> runs;

    /// In address order. Without effect if there are too many runs.
    void add_line(addr_range line, line_state state) {
        if (!runs.empty() && runs.back().state == state && runs.back().lines.end == line.begin)
            runs.back().lines.end = line.end;
        else if (runs.size() < MAX_RUNS)
            runs.push_back({line, state});
    }
};

/// Not thread-safe. References and pointers to events are valid until the next add().
class event_history {
  public:
    static constexpr std::size_t CAPACITY = 4096;

    history_event &add(event_kind, addr_range bytes, const mem_access &access = {});
    /// If the last event differs from the one before in its time only: counts it there.
    void merge_last();
    /// The last max_count events on any of these whole lines, oldest first.
    [[nodiscard]] std::vector<const history_event *> find_last(addr_range lines,
                                                               std::size_t max_count) const;
    /// The number of the event that was added last; 0: none was.
    [[nodiscard]] std::uint64_t last_number() const noexcept { return last_number_; }

  private:
    /// index 0: the last event; less than size_.
    [[nodiscard]] const history_event &last(std::size_t index) const noexcept;

    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
    std::vector<history_event> ring_; ///< grows up to CAPACITY
    std::uint64_t last_number_ = 0;
    std::size_t size_ = 0; ///< number of events
    std::size_t next_ = 0; ///< index in ring_ where the next event is stored
};

} // namespace coherdma::emulation

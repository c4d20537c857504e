// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Work requests that are posted and not complete. The driver gets a number of this table as wr_id;
// polling gives the program its own wr_id back.
#pragma once

#include "core/findings/finding_log.hpp"

#include <deque>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace coherdma::emulation {

struct pending_wr {
    std::uint64_t wr_id = 0;     ///< the program's
    const void *queue = nullptr; ///< an ibv_qp or ibv_srq
    bool is_send = false;
    bool is_signaled = true;
    std::vector<addr_range> sinks; ///< local memory that it writes
    mem_access request;            ///< set if the program syncs local memory
    bool is_reported = false;      ///< a finding was that a sink was not synced
};

/// Thread-safe.
class pending_wr_table {
  public:
    pending_wr_table();
    /// Returns its number, the driver's wr_id.
    std::uint64_t add(pending_wr);
    /// Sets the sinks, request and is_reported.
    void set_local_memory(std::uint64_t number, pending_wr);
    /// The driver did not accept the WR.
    void cancel(std::uint64_t number);
    /// Removes a complete WR and, before it in the result, the unsignaled WRs posted before it to
    /// the same queue. Empty: the number is unknown.
    std::vector<pending_wr> complete(std::uint64_t number);
    /// Removes all WRs of a queue that is destroyed or reset.
    void remove_queue(const void *queue);

  private:
    std::mutex mutex_;
    std::uint64_t next_number_; ///< starts at a value that programs do not use as wr_id
    std::unordered_map<std::uint64_t, pending_wr> wrs_;                      ///< by number
    std::unordered_map<const void *, std::deque<std::uint64_t>> unsignaled_; ///< by queue
};

} // namespace coherdma::emulation

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Findings: missing syncs and data lost by them. They are printed on stderr and written to a file
// of JSON lines, with a summary when the process ends.
#pragma once

#include "core/memory/addr_range.hpp"
#include "core/settings.hpp"
#include "reports/stack_trace.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace coherdma::emulation {

using reports::stack_trace;

enum class finding_kind : std::uint8_t {
    UNSYNCED_READ,   ///< a peer reads dirty lines
    UNSYNCED_WRITE,  ///< a peer writes dirty lines
    CONFLICT,        ///< both the program and the device changed a line
    STALE,           ///< the device wrote a line that was never fetched
    UNSYNCED_SOURCE, ///< a request of the program reads dirty lines
    UNSYNCED_SINK,   ///< a request of the program writes dirty lines
    CONFLICT_SINK,   ///< both the program and a request of it changed a line
    STALE_SINK,      ///< a request of the program wrote a line that was never fetched
    SHARED_LINE,     ///< the program and the device changed different bytes of a line
    DISCARDED,       ///< a dirty line was dropped when its memory was deregistered
    BESIDE,          ///< data arrived in a line with other bytes that are dirty
    REDUNDANT,       ///< a sync of a range that was clean
};
const char *kind_name(finding_kind) noexcept;
/// Of all kinds, for suppressions.
std::vector<std::string> kind_names();
/// The sync that would have helped: "sync after the Write".
const char *missing_sync(finding_kind) noexcept;

/// What a finding does not show; the least doubt first.
enum class finding_doubt : std::uint8_t {
    NONE,         ///< certain: the order of calls is wrong, and the bytes of the two copies differ
    MAYBE_UNREAD, ///< possible: the bytes differ, but the program may never have read them
    SAME_BYTES,   ///< possible: the order is wrong, but the bytes were the same
};

const char *doubt_name(finding_doubt) noexcept; ///< "same-bytes"; "": certain

/// A work request of a peer or of this process, or a sync.
struct mem_access {
    std::string
        text; ///< "RDMA Write of 64 bytes, wr_id 0x7 of QP 17, by process 9 (rping)"; "": none
    stack_trace stack;                   ///< if it is of this process
    std::vector<std::string> peer_stack; ///< if it is of another process
};

/// Registered memory.
struct memory_region {
    std::uint32_t number = 0; ///< counts the MRs of this process from 1
    addr_range range;
    std::uint64_t iova = 0;
    std::uint32_t lkey = 0, rkey = 0;
    bool remote_read = false, remote_write = false;
    std::string device_name;
    stack_trace reg_stack;          ///< of the registration
    stack_trace alloc_stack;        ///< of the allocation, if the address sanitizer knows it
    std::uint64_t event_number = 0; ///< of the registration, in the history of events

    [[nodiscard]] bool is_remote() const noexcept { return remote_read || remote_write; }
};

struct history_event;

/// What is reported of adjacent lines: a sync is missing, or was not needed.
struct finding {
    finding_kind kind = finding_kind::CONFLICT;
    finding_doubt doubt = finding_doubt::NONE;
    memory_region mr;
    addr_range range;              ///< contiguous lines
    std::uintptr_t first_diff = 0; ///< the first byte that differs
    std::vector<unsigned char> program_bytes, device_bytes, last_equal_bytes; ///< from there
    mem_access last_sync, request;
    std::size_t line_size = 0;
    std::vector<const history_event *> history; ///< of the range, oldest first

    /// The calls between which a sync is missing: "the completion polled", "the sync", "the peer's
    /// RDMA Read". Without text: not known; without a stack: no call of this process.
    mem_access after, before;
    std::size_t missing_before = NO_EVENT; ///< index in history of the event that comes next

    static constexpr std::size_t NO_EVENT = ~std::size_t{0};
};

/// Thread-safe.
class finding_log {
  public:
    explicit finding_log(const settings &);
    ~finding_log();

    void report(const finding &);
    /// Prints something that is not emulated, each text once.
    void note(const std::string &text);
    /// Writes the summary, once. Returns the number of findings that are not suppressed.
    std::size_t write_summary();

  private:
    struct impl;
    std::unique_ptr<impl> impl_;
};

} // namespace coherdma::emulation

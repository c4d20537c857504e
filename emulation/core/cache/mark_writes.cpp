// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Which bytes are marked for a memory checker, and when: those that the device wrote, once the
// program may know of it. That is after a completion with data, which may be a message of the peer;
// or one second later, for a program that polls a flag in memory without a call. Not at once: a
// program may sync and look in turns, and finds what arrives in between at its next turn.

#include "cache_line.hpp"
#include "cache_model.hpp"

#include <algorithm>
#include <utility>

namespace coherdma::emulation {
namespace {

constexpr std::chrono::seconds LONG_STALE{1};
constexpr std::size_t MAX_SCANNED = 1 << 18; // bytes, per completion
constexpr std::size_t MIN_SCANNED = 4096;    // as many as a small MR costs

} // namespace

bool cache_model::needs_thread() const noexcept {
    return config_.mode == cache_mode::POISON || config_.mode == cache_mode::EVICT ||
           marks_.checker() != nullptr;
}

/// Marks the bytes of a stale line that a recorded write of a peer has; if there is none, those in
/// `bytes` that differ. False: the line is not to be marked, or not yet.
bool cache_model::mark_line(const cache_line &line, addr_range bytes) {
    // A line in conflict becomes a finding. Shared memory may be synced by another process.
    if (!line.is_stale() || is_dirty(line) || line.extent->shared != nullptr)
        return false;
    if (!has_noted_marks_)
        log_.note(std::string("bytes that peers wrote are marked until they are synced: ") +
                  marks_.checker()->report_text);
    has_noted_marks_ = true;
    bool is_marked = false;
    writes_.for_each(line.range(), [&](const recorded_write &write) {
        const addr_range part = intersection(write.range, line.range());
        if (!line.differs_in(part))
            return; // its data has not arrived yet
        marks_.add(line.addr, part);
        is_marked = true;
    });
    if (!is_marked)
        mark_changed_bytes(line, intersection(bytes, line.range()));
    return true;
}

/// Marks the bytes in which the copies differ, for a write that is not recorded. A gap of less than
/// a word between changed bytes counts as written with the same value.
void cache_model::mark_changed_bytes(const cache_line &line, addr_range bytes) {
    addr_range changed;
    for (std::uintptr_t addr = bytes.begin; addr < bytes.end; ++addr) {
        if (!line.differs_in({addr, addr + 1}))
            continue;
        if (!changed.empty() && addr - changed.end >= sizeof(program_memory::word))
            marks_.add(line.addr, std::exchange(changed, {}));
        changed = {changed.empty() ? addr : changed.begin, addr + 1};
    }
    if (!changed.empty())
        marks_.add(line.addr, changed);
}

/// After a completion with data, which may be a message of a peer that it has written memory: notes
/// that; for a memory checker, marks what recorded writes wrote, and what changed in the next parts
/// of the memory.
void cache_model::on_data_received() {
    const lock_guard guard(mutex_);
    record_data_received();
    if (marks_.checker() == nullptr)
        return;
    writes_.for_each([&](recorded_write &write) {
        if (write.marked)
            return;
        write.marked = true;
        visit_lines(write.range, [&](cache_line &line) {
            write.marked = mark_line(line, write.range) && write.marked;
        });
    });
    std::size_t scanned = 0;
    // Until the end was reached twice, so little memory is scanned completely.
    for (int num_ends = 0; scanned < MAX_SCANNED && num_ends < 2;) {
        const addr_range range = next_scan_range();
        scanned += std::max(range.size(), MIN_SCANNED);
        num_ends += scan_pos_ == 0;
        for (const addr_range &changed : find_device_changes(range))
            visit_lines(changed, [&](cache_line &line) { mark_line(line, range); });
    }
}

/// Marks lines that have been stale for a second: the program may poll memory without a call.
void cache_model::mark_long_stale(addr_range range) {
    if (marks_.checker() == nullptr)
        return;
    for (const addr_range &changed : find_device_changes(range))
        visit_lines(changed, [&](cache_line &line) {
            if (line.is_stale() && marks_.is_stale_for(line.addr, LONG_STALE))
                mark_line(line, range);
        });
}

} // namespace coherdma::emulation

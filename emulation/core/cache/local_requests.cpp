// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The program's own work requests, if the program and not the provider syncs their local memory.
// Its lines must be clean when the request is posted; what the device writes is recorded at the
// completion, and stays stale until the program syncs it. An empty range has no line.

#include "cache_line.hpp"
#include "cache_model.hpp"
#include "core/findings/line_reporter.hpp"

#include <cstring>

namespace coherdma::emulation {

/// A request that this program posts reads this memory: reports lines whose changes the program has
/// not written back.
void cache_model::check_local_source(addr_range range, const mem_access &request,
                                     unposted_checks *unposted) {
    if (range.empty())
        return;
    const lock_guard guard(mutex_);
    line_reporter dirty(*this, &request, unposted);
    visit_lines_as_event(event_kind::REQUEST_SOURCE, range, request, [&](cache_line &line) {
        if (is_dirty(line) && line.differs_in(range))
            dirty.add(finding_kind::UNSYNCED_SOURCE, line);
        else if (needs_sync_by_order(line, range))
            dirty.add(finding_kind::UNSYNCED_SOURCE, line, finding_doubt::SAME_BYTES);
    });
    dirty.report_pending();
    forget_never_synced(range); // said once
}

/// A request that this program posts writes this memory: reports lines that the program has changed
/// and not written back. Returns whether there was a finding.
bool cache_model::check_local_sink(addr_range range, const mem_access &request,
                                   unposted_checks *unposted) {
    if (range.empty())
        return false;
    const lock_guard guard(mutex_);
    line_reporter dirty(*this, &request, unposted);
    bool is_reported = false;
    visit_lines_as_event(event_kind::REQUEST_SINK, range, request, [&](cache_line &line) {
        if (is_dirty(line))
            dirty.add(finding_kind::UNSYNCED_SINK, line);
        else if (needs_sync_by_order(line, range))
            dirty.add(finding_kind::UNSYNCED_SINK, line, finding_doubt::SAME_BYTES);
        is_reported = is_reported || is_dirty(line);
    });
    dirty.report_pending();
    forget_never_synced(range); // said once
    return is_reported;
}

void cache_model::record_local_write(addr_range bytes, const mem_access &request,
                                     bool is_reported) {
    if (bytes.empty())
        return;
    const lock_guard guard(mutex_);
    visit_lines_as_event(event_kind::REQUEST_COMPLETE, bytes, request, [&](cache_line &line) {
        if (config_.mode == cache_mode::POISON)
            poison_line(line);
    });
    record_write({.range = bytes,
                  .request = request,
                  .reported = is_reported,
                  .is_local = true,
                  .completion = capture_caller().stack,
                  .completion_time = std::chrono::steady_clock::now()});
}

/// The kind of a finding on a line that only the device wrote.
finding_kind cache_model::stale_kind(const cache_line &line) const {
    const recorded_write *const write = find_last_write(line.range());
    return write != nullptr && write->is_local ? finding_kind::STALE_SINK : finding_kind::STALE;
}

/// The kind of a finding on a line that both the program and the device wrote.
finding_kind cache_model::conflict_kind(const cache_line &line) const {
    const recorded_write *const write = find_last_write(line.range());
    if (write == nullptr)
        return finding_kind::CONFLICT;
    if (is_changed_beside_writes(line))
        return finding_kind::SHARED_LINE;
    return write->is_local ? finding_kind::CONFLICT_SINK : finding_kind::CONFLICT;
}

/// Whether the program has changed bytes of the line, but none that a recorded request wrote: no
/// sync at another moment would keep the data of both.
bool cache_model::is_changed_beside_writes(const cache_line &line) const {
    const bool is_poisoned = poisoned_.count(line.addr) != 0;
    std::array<unsigned char, MAX_LINE_SIZE> unchanged; // what the program had before
    if (!is_poisoned && !line.recover_last_equal(unchanged.data()))
        return false;
    const auto is_changed = [&](std::size_t i) {
        const unsigned char byte = line.program_bytes[i];
        return is_poisoned ? byte != POISON && byte != line.device_bytes[i] : byte != unchanged[i];
    };
    bool has_changed_written_byte = false;
    writes_.for_each(line.range(), [&](const recorded_write &write) {
        const addr_range written = intersection(write.range, line.range());
        for (std::uintptr_t addr = written.begin; addr < written.end; ++addr)
            has_changed_written_byte = has_changed_written_byte || is_changed(addr - line.addr);
    });
    return !has_changed_written_byte;
}

/// If the program gives these bytes to the device again, and has not synced what the device wrote
/// there for a request that has completed: what is not certain about that.
std::optional<finding_doubt> cache_model::unsynced_sink_doubt(const cache_line &line,
                                                              addr_range bytes) const {
    if (is_dirty(line))
        return std::nullopt;
    const recorded_write *const write = find_last_write(line.range());
    if (write == nullptr || !write->is_local || intersection(write->range, bytes).empty())
        return std::nullopt;
    if (line.is_stale())
        return finding_doubt::NONE;
    return config_.strict ? std::optional(finding_doubt::SAME_BYTES) : std::nullopt;
}

} // namespace coherdma::emulation

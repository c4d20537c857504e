// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The program's own work requests, if the program and not the provider syncs their local memory.
// Its lines must be clean when the request is posted; what the device writes is recorded at the
// completion, and stays stale until the program syncs it. An empty range has no line.

#include "cache_line.hpp"
#include "cache_model.hpp"
#include "core/findings/line_reporter.hpp"

namespace coherdma::emulation {

/// A request that this program posts reads this memory: reports lines whose changes the program has
/// not written back.
void cache_model::check_local_source(addr_range range, const mem_access &request) {
    if (range.empty())
        return;
    const lock_guard guard(mutex_);
    line_reporter dirty(*this, &request);
    visit_lines_as_event(event_kind::REQUEST_SOURCE, range, request, [&](cache_line &line) {
        if (is_dirty(line) && line.differs_in(range))
            dirty.add(finding_kind::UNSYNCED_SOURCE, line);
    });
}

/// A request that this program posts writes this memory: reports lines that the program has changed
/// and not written back. Returns whether there was a finding.
bool cache_model::check_local_sink(addr_range range, const mem_access &request) {
    if (range.empty())
        return false;
    const lock_guard guard(mutex_);
    line_reporter dirty(*this, &request);
    bool is_reported = false;
    visit_lines_as_event(event_kind::REQUEST_SINK, range, request, [&](cache_line &line) {
        if (!is_dirty(line))
            return;
        dirty.add(finding_kind::UNSYNCED_SINK, line);
        is_reported = true;
    });
    return is_reported;
}

void cache_model::record_local_write(addr_range bytes, const mem_access &request,
                                     bool is_reported) {
    if (bytes.empty())
        return;
    const lock_guard guard(mutex_);
    bool is_stale = false;
    visit_lines_as_event(event_kind::REQUEST_COMPLETE, bytes, request, [&](cache_line &line) {
        is_stale = is_stale || line.is_stale();
        if (config_.mode == cache_mode::POISON)
            poison_line(line);
    });
    if (is_stale)
        record_write(
            {.range = bytes, .request = request, .reported = is_reported, .is_local = true});
}

/// The kind of a finding on a line that the device wrote.
finding_kind cache_model::kind_by_writer(const cache_line &line, finding_kind kind) const {
    const recorded_write *const write = find_last_write(line.range());
    if (write == nullptr || !write->is_local)
        return kind;
    return kind == finding_kind::CONFLICT ? finding_kind::CONFLICT_SINK : finding_kind::STALE_SINK;
}

/// Whether the program gives these bytes to the device again, and has not synced what the device
/// wrote there for a request that has completed.
bool cache_model::is_unsynced_sink(const cache_line &line, addr_range bytes) const {
    if (!line.is_stale() || is_dirty(line))
        return false;
    const recorded_write *const write = find_last_write(line.range());
    return write != nullptr && write->is_local && !intersection(write->range, bytes).empty();
}

} // namespace coherdma::emulation

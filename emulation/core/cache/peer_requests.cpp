// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Work requests of peers, and the recorded writes that findings name. A peer's request
// is checked before it is posted: the program must have synced before it let the peer know of the
// memory, so its lines must be clean by then, and the request itself has changed nothing yet.

#include "cache_line.hpp"
#include "cache_model.hpp"
#include "core/findings/line_reporter.hpp"

#include <algorithm>
#include <unistd.h>

namespace coherdma::emulation {
namespace {

constexpr std::size_t MAX_SYNCED_RANGES = 256;

} // namespace

/// A peer is about to post this request: reports lines that it would read unsynced.
void cache_model::check_peer_rdma_read(addr_range range, const mem_access &request,
                                       unposted_checks *unposted) {
    const lock_guard guard(mutex_);
    line_reporter dirty(*this, &request, unposted);
    visit_lines_as_event(event_kind::PEER_RDMA_READ, range, request, [&](cache_line &line) {
        if (is_dirty(line) && line.differs_in(range))
            dirty.add(finding_kind::UNSYNCED_READ, line);
        else if (needs_sync_by_order(line, range))
            dirty.add(finding_kind::UNSYNCED_READ, line, finding_doubt::SAME_BYTES);
    });
    dirty.report_pending();
    forget_never_synced(range); // said once
}

void cache_model::check_peer_rdma_write(addr_range range, const mem_access &request,
                                        unposted_checks *unposted) {
    check_and_record_write(event_kind::PEER_RDMA_WRITE, range, request,
                           finding_kind::UNSYNCED_WRITE, unposted);
}

void cache_model::check_peer_atomic(addr_range range, const mem_access &request,
                                    unposted_checks *unposted) {
    check_and_record_write(event_kind::PEER_ATOMIC, range, request, finding_kind::UNSYNCED_READ,
                           unposted);
}

/// A peer is about to post a request that writes: reports dirty lines as findings of kind_if_dirty,
/// and records the write for later findings.
void cache_model::check_and_record_write(event_kind kind, addr_range range,
                                         const mem_access &request, finding_kind kind_if_dirty,
                                         unposted_checks *unposted) {
    const lock_guard guard(mutex_);
    bool reported = false;
    {
        line_reporter dirty(*this, &request, unposted);
        visit_lines_as_event(kind, range, request, [&](cache_line &line) {
            if (is_dirty(line))
                dirty.add(kind_if_dirty, line);
            else if (needs_sync_by_order(line, range))
                dirty.add(kind_if_dirty, line, finding_doubt::SAME_BYTES);
            reported = reported || is_dirty(line);
        });
    }
    forget_never_synced(range); // said once; and now the device's data are in the lines
    const std::uint64_t number = unposted != nullptr ? next_write_number_++ : 0;
    auto replaced =
        record_write({.range = range, .request = request, .reported = reported, .number = number});
    if (unposted != nullptr)
        unposted->writes_.push_back({number, std::move(replaced)});
}

void cache_model::report_posted(unposted_checks &checks) {
    for (const kept_finding &each : checks.findings_)
        log_.report(each.get());
    checks = {};
}

/// In place of each write, or of the parts that the program has not fetched, there is what the
/// write has replaced.
void cache_model::drop_unposted(unposted_checks &checks) {
    const lock_guard guard(mutex_);
    constexpr std::size_t MAX_REFUSED = 1024;
    if (refused_writes_.size() > MAX_REFUSED)
        refused_writes_.clear();
    for (const auto &dropped : checks.writes_) {
        // A refused list of requests is dropped in its order: a later one may have replaced this.
        refused_writes_.insert(dropped.number);
        writes_.remove_if([&](recorded_write &write) {
            if (write.number != dropped.number)
                return false;
            if (!dropped.replaced || refused_writes_.count(dropped.replaced->number) != 0)
                return true;
            const addr_range part = write.range;
            write = *dropped.replaced;
            write.range = part;
            return false;
        });
    }
    has_unpoisoned_writes_ = writes_.has_pending();
    checks = {};
}

/// Remembers memory that a request writes, until the program fetches it; replaces the write of the
/// same range, and returns that.
std::optional<recorded_write> cache_model::record_write(recorded_write added) {
    const bool is_poisoned = config_.mode != cache_mode::POISON || added.is_local;
    auto replaced = writes_.add(std::move(added), !is_poisoned);
    has_unpoisoned_writes_ = writes_.has_pending();
    return replaced;
}

/// The program polls a completion with data. Adds it to the history of the memory of each write of
/// a peer that was recorded since the last one.
void cache_model::record_data_received() {
    std::optional<mem_access> caller;
    writes_.for_each_latest_first([&](recorded_write &write) {
        if (write.is_local)
            return true;
        if (write.completion) // and so have all earlier ones
            return false;
        if (!caller)
            caller = capture_caller();
        history_.add(event_kind::DATA_RECEIVED, write.range, *caller);
        write.completion = caller->stack;
        write.completion_time = std::chrono::steady_clock::now();
        return true;
    });
}

/// The last write that touches one of these lines; nullptr: none is recorded.
const recorded_write *cache_model::find_last_write(addr_range range) const {
    return writes_.find_last(round_out(range, config_.line_size));
}

/// The program fetched these lines, or they are not registered any more: removes them from the
/// recorded writes, which may leave a part before and one behind.
void cache_model::forget_writes(addr_range range) {
    writes_.remove(round_out(range, config_.line_size));
    has_unpoisoned_writes_ = writes_.has_pending();
}

/// Whether the program may know of the last write of the line: it has polled its completion, or a
/// message after it.
bool cache_model::knows_of_write(const cache_line &line) const {
    const recorded_write *const write = find_last_write(line.range());
    return write != nullptr && write->completion;
}

/// The lines that were written by requests of which the program may know, that it has not synced
/// since, and that no finding has named.
range_set cache_model::find_known_writes(addr_range lines) const {
    range_set known;
    writes_.for_each(lines, [&](const recorded_write &write) {
        if (!write.reported && !write.was_in_conflict && write.completion)
            known.add(intersection(round_out(write.range, config_.line_size), lines));
    });
    return known;
}

/// The program or a request of its own syncs these lines, or a finding has named them.
void cache_model::forget_never_synced(addr_range bytes) {
    never_synced_.remove(round_out(bytes, config_.line_size));
}

/// Whether the program has probably stored to these bytes before it registered them, and has not
/// synced them since. Fresh memory has zeros, to which it has not. Both copies were equal at the
/// registration, so that the bytes do not show it.
bool cache_model::was_filled_before_registration(const cache_line &line, addr_range bytes) const {
    const addr_range part = intersection(bytes, line.range());
    const auto begin =
        line.program_bytes.begin() + static_cast<std::ptrdiff_t>(part.begin - line.addr);
    return never_synced_.overlaps(line.range()) &&
           std::any_of(begin, begin + static_cast<std::ptrdiff_t>(part.size()),
                       [](unsigned char byte) { return byte != 0; });
}

/// Whether the line, which is not dirty, must be synced before a request on these bytes.
bool cache_model::needs_sync_by_order(const cache_line &line, addr_range bytes) const {
    return incomplete_syncs_.overlaps(line.range()) || was_filled_before_registration(line, bytes);
}

/// For mode evict, which moves lines that are in use more often.
void cache_model::remember_synced_range(addr_range range) {
    if (synced_ranges_.size() == MAX_SYNCED_RANGES)
        synced_ranges_.pop_back();
    synced_ranges_.push_front(range);
}

/// That of these lines, as mr_table::find_by_lines().
memory_region cache_model::find_mr(addr_range lines) const {
    const auto page_size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const memory_region *const mr = mrs_.find_by_lines(lines, page_size);
    return mr != nullptr ? *mr : memory_region{};
}

} // namespace coherdma::emulation

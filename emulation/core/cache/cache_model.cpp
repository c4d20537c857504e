// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Registration and syncs.

#include "cache_model.hpp"

#include "cache_line.hpp"
#include "core/findings/line_reporter.hpp"

#include <algorithm>
#include <cerrno>
#include <map>
#include <unistd.h>

namespace coherdma::emulation {
namespace {

std::size_t page_size() noexcept {
    return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

} // namespace

cache_model::cache_model(const settings &config, finding_log &log, const memory_checker *checker)
    : config_(config)
    , log_(log)
    , page_store_(page_size(), page_size() / config_.line_size * hash_bytes(config_.line_size))
    , marks_(checker)
    , rng_(config.seed) {}

cache_model::~cache_model() = default;

std::size_t cache_model::memory_bytes() {
    const lock_guard guard(mutex_);
    return page_store_.bytes();
}

/// Calls func for each registered line that has a byte in the range, with a snapshot of both
/// copies, the program's memory and the device's pages; first adds its state to the event. With
/// mutex_. Returns 0, or EFAULT if the program's copy of a line cannot be read.
int cache_model::visit_lines(addr_range range, const line_visitor &func, history_event *event) {
    int error = 0;
    cache_line line;
    line.size = config_.line_size;
    page_store_.visit(round_out(range, config_.line_size), [&](addr_range part,
                                                               page_extent &extent) {
        line.extent = &extent;
        for (std::uintptr_t begin = part.begin; begin < part.end && error == 0; begin += CHUNK) {
            const std::uintptr_t end = std::min(begin + CHUNK, part.end);
            error = program_memory::read(begin, chunk_.data(), end - begin);
            for (line.addr = begin; line.addr < end && error == 0; line.addr += line.size) {
                const unsigned char *const program = &chunk_[line.addr - begin];
                line.device = extent.device + (line.addr - extent.pages.begin);
                line.last_equal_hash = stored_hash(extent, line.addr, line.size).get();
                line.program_hash = hash_of(program, line.size);
                std::memcpy(line.program_bytes.data(), program, line.size);
                std::memcpy(line.device_bytes.data(), line.device, line.size);
                line.device_hash = hash_of(line.device_bytes.data(), line.size);
                update_if_equal(line);
                if (event != nullptr)
                    event->add_line(line.range(), state_of(line));
                func(line);
            }
        }
    });
    return error;
}

/// visit_lines() that is an event of the history, with the state in which it finds each line.
int cache_model::visit_lines_as_event(event_kind kind, addr_range bytes, const mem_access &access,
                                      const line_visitor &func) {
    const int error = visit_lines(bytes, func, &history_.add(kind, bytes, access));
    history_.merge_last();
    return error;
}

line_state cache_model::state_of(const cache_line &line) const {
    if (is_dirty(line))
        return line.is_stale() ? line_state::CONFLICT : line_state::DIRTY;
    return line.is_stale() ? line_state::STALE : line_state::CLEAN;
}

/// Where the program calls the emulation.
mem_access cache_model::capture_caller() const {
    return {"", config_.stack_traces ? stack_trace::capture() : stack_trace{}, {}};
}

/// The program begins a sync of the range, the next event of the history. Returns where it does.
mem_access cache_model::record_sync(event_kind kind, addr_range range) {
    mem_access caller = capture_caller();
    remember_synced_range(range);
    forget_never_synced(range);
    remember_unregistered_lines(range);
    last_syncs_.add(range, {kind, history_.last_number() + 1, caller.stack});
    return caller;
}

/// If both copies have become equal, no sync is missing, whichever changed: the line is clean.
void cache_model::update_if_equal(cache_line &line) {
    if (line.program_hash != line.device_hash)
        return;
    if (line.last_equal_hash != line.program_hash)
        line.set_last_equal(line.program_hash);
    drop_poison_and_marks(line.addr);
}

void cache_model::drop_poison_and_marks(std::uintptr_t line_addr) {
    poisoned_.erase(line_addr);
    marks_.remove(line_addr);
}

/// Makes the device's pages of a region, as a copy of the program's. Sets mr.number, and mappings
/// to what must be mapped and registered. Returns 0 or an errno.
int cache_model::add_mr(memory_region &mr, std::vector<page_mapping> &mappings) {
    const lock_guard guard(mutex_);
    const addr_range pages = round_out(mr.range, page_size());
    int copy_error = 0;
    range_set unsynced_lines;
    const auto copy_program = [&](addr_range added, page_extent &extent) {
        unsigned char *const device = extent.device + (added.begin - extent.pages.begin);
        if (copy_error == 0)
            copy_error = program_memory::read(added.begin, device, added.size());
        addr_range unsynced;
        for (addr_range line = {added.begin, added.begin + config_.line_size};
             line.begin < added.end && copy_error == 0;
             line = {line.end, line.end + config_.line_size}) {
            const std::uint64_t hash =
                hash_of(device + (line.begin - added.begin), config_.line_size);
            // Of the line when both copies are equal.
            stored_hash(extent, line.begin, config_.line_size).set(hash);
            if (was_synced_line(line.begin, hash))
                continue;
            if (unsynced.end != line.begin) {
                unsynced_lines.add(unsynced);
                unsynced.begin = line.begin;
            }
            unsynced.end = line.end;
        }
        unsynced_lines.add(unsynced);
        if (extent.shared != nullptr) // another process may sync shared memory
            unsynced_lines.remove(added);
    };
    std::string reason;
    int error = page_store_.get_pages(pages, copy_program, &reason);
    if (error == page_store::NO_SHM_OBJECT) {
        log_.note("shared memory is emulated as if it was private to this process: " + reason);
        error = page_store_.get_pages(pages, copy_program);
    }
    if (error != 0)
        return error;
    if (copy_error != 0) {
        page_store_.put_pages(pages);
        return copy_error;
    }
    unsynced_lines.for_each([&](addr_range lines) { never_synced_.add(lines); });
    mr.event_number = history_.add(event_kind::REG_MR, mr.range, {"", mr.reg_stack, {}}).number;
    mr.number = mrs_.add(mr);
    mappings.clear();
    page_store_.visit(pages, [&](addr_range part, const page_extent &extent) {
        mappings.push_back({part.begin, part.size(), extent.fd,
                            extent.file_offset + (part.begin - extent.pages.begin)});
    });
    return 0;
}

void cache_model::set_keys(std::uint32_t mr_number, std::uint32_t lkey, std::uint32_t rkey) {
    const lock_guard guard(mutex_);
    mrs_.set_keys(mr_number, lkey, rkey);
}

void cache_model::set_remote_access(std::uint32_t mr_number, bool can_read, bool can_write) {
    const lock_guard guard(mutex_);
    mrs_.set_remote_access(mr_number, can_read, can_write);
}

/// The region was deregistered: reports stale lines that no other MR has, and frees the device's
/// pages.
void cache_model::remove_mr(std::uint32_t mr_number) {
    const lock_guard guard(mutex_);
    const memory_region *const removed = mrs_.find(mr_number);
    if (removed == nullptr)
        return;
    const addr_range range = removed->range;
    const addr_range pages = round_out(range, page_size());
    const addr_range lines = round_out(range, config_.line_size);
    const auto is_last_mr = [&](const cache_line &line) {
        return !mrs_.has_other(mr_number, line.range()) &&
               !page_store_.is_registered_elsewhere(*line.extent, line.addr);
    };
    line_reporter(*this, nullptr).drop_lines(at_process_end_, lines); // they are found again
    { // reports name the writes, which are forgotten after this block
        const range_set known_writes = find_known_writes(lines);
        line_reporter stale_lines(*this, nullptr), discarded(*this, nullptr);
        visit_lines_as_event(event_kind::DEREG_MR, pages, capture_caller(), [&](cache_line &line) {
            const bool is_in_mr = !intersection(lines, line.range()).empty();
            const bool is_reported =
                is_in_mr && is_last_mr(line) && report_if_stale(line, known_writes, stale_lines);
            if (!page_store_.is_last_ref(*line.extent, line.addr))
                return; // another MR or process has the page
            discard_changes(line, is_reported, discarded);
            if (!is_dirty(line) && !never_synced_.overlaps(line.range()))
                remember_synced_line(line.addr, line.program_hash);
            poisoned_.erase(line.addr);
            never_synced_.remove(line.range());
        });
    }
    if (!mrs_.has_other(mr_number, lines))
        forget_writes(range);
    marks_.remove_all(lines);
    page_store_.put_pages(pages);
    mrs_.remove(mr_number);
}

/// The line, which is not registered any more or not yet, needs no sync when it is registered
/// without a store to it meanwhile.
void cache_model::remember_synced_line(std::uintptr_t line_addr, std::uint64_t program_hash) {
    constexpr std::size_t MAX_LINES = 262144;
    if (synced_lines_.size() < MAX_LINES)
        synced_lines_[line_addr] = program_hash;
    else
        has_forgotten_synced_lines_ = true;
}

/// The program syncs these bytes: remembers the lines that are not registered.
void cache_model::remember_unregistered_lines(addr_range range) {
    const addr_range lines = round_out(range, config_.line_size);
    range_set unregistered;
    unregistered.add(lines);
    page_store_.visit(lines,
                      [&](addr_range part, const page_extent &) { unregistered.remove(part); });
    unregistered.for_each([&](addr_range part) {
        alignas(16) std::array<unsigned char, MAX_LINE_SIZE> bytes;
        for (std::uintptr_t addr = part.begin; addr < part.end && !has_forgotten_synced_lines_;
             addr += config_.line_size)
            if (program_memory::read(addr, bytes.data(), config_.line_size) == 0)
                remember_synced_line(addr, hash_of(bytes.data(), config_.line_size));
    });
}

/// Whether the line, which is being registered and has this hash, needs no sync because of earlier
/// stores. Forgets it.
bool cache_model::was_synced_line(std::uintptr_t line_addr, std::uint64_t hash) {
    const auto it = synced_lines_.find(line_addr);
    if (it == synced_lines_.end())
        return has_forgotten_synced_lines_; // a missing sync is not found then
    const bool is_unchanged = it->second == hash;
    synced_lines_.erase(it);
    return is_unchanged;
}

/// The page of the line is deregistered: before Linux 7.0 that drops the program's changes. They
/// are reported unless the line was.
void cache_model::discard_changes(cache_line &line, bool is_reported, line_reporter &discarded) {
    if (!config_.dereg_discards)
        return;
    if (!is_reported && is_dirty(line))
        discarded.add(finding_kind::DISCARDED, line);
    if (line.program_hash != line.device_hash)
        line.copy_to_program(line.device_bytes.data());
}

/// Reports a line that the device wrote and the program has not fetched, unless it is in conflict
/// and the peer's request was reported. Returns whether it is reported now.
/// known_writes: find_known_writes() of the line.
bool cache_model::report_if_stale(const cache_line &line, const range_set &known_writes,
                                  line_reporter &stale_lines) {
    const bool is_stale = line.is_stale();
    // Another process may have synced shared memory.
    const bool is_unsynced =
        config_.strict && line.extent->shared == nullptr && known_writes.overlaps(line.range());
    if (!is_dirty(line) && (is_stale || is_unsynced)) {
        stale_lines.add(stale_kind(line), line,
                        !is_stale              ? finding_doubt::SAME_BYTES
                        : knows_of_write(line) ? finding_doubt::NONE
                                               : finding_doubt::MAYBE_UNREAD);
        return true;
    }
    if (!is_stale)
        return false;
    const recorded_write *const write = find_last_write(line.range());
    if (write != nullptr && write->reported)
        return false;
    stale_lines.add(conflict_kind(line), line);
    return true;
}

/// Reads a byte of each registered page. Returns 0, or EFAULT and sets *bad_addr.
int cache_model::check_readable(const addr_range *ranges, std::size_t count,
                                std::uintptr_t *bad_addr) {
    const lock_guard guard(mutex_);
    for (std::size_t i = 0; i < count; ++i) {
        int error = 0;
        page_store_.visit(round_out(ranges[i], config_.line_size),
                          [&](addr_range part, const page_extent &) {
                              for (std::uintptr_t addr = part.begin; addr < part.end && error == 0;
                                   addr = (addr | (page_size() - 1)) + 1) {
                                  unsigned char byte;
                                  error = program_memory::read(addr, &byte, 1);
                                  *bad_addr = addr;
                              }
                          });
        if (error != 0)
            return error;
    }
    return 0;
}

/// In mode evict lines also move at random, so the program cannot know which syncs are redundant.
bool cache_model::reports_redundant() const noexcept {
    return config_.report_redundant && config_.mode != cache_mode::EVICT;
}

/// The program syncs the range: writes its dirty lines back. report_redundant: a finding if there
/// was none.
void cache_model::writeback_range(event_kind kind, addr_range range, bool report_redundant) {
    line_reporter conflicts(*this, nullptr), redundant(*this, nullptr);
    bool is_needed = false;
    visit_lines_as_event(kind, range, record_sync(kind, range), [&](cache_line &line) {
        is_needed = is_needed || is_dirty(line);
        writeback(line, conflicts);
    });
    if (report_redundant && !is_needed)
        visit_lines(range, [&](cache_line &line) { redundant.add(finding_kind::REDUNDANT, line); });
}

/// A sync of the program that writes lines back and invalidates them.
void cache_model::writeback_invalidate_range(event_kind kind, addr_range range,
                                             bool report_redundant) {
    line_reporter conflicts(*this, nullptr), unsynced(*this, nullptr), redundant(*this, nullptr);
    bool is_needed = false;
    visit_lines_as_event(kind, range, record_sync(kind, range), [&](cache_line &line) {
        is_needed = is_needed || is_dirty(line) || line.is_stale();
        if (kind == event_kind::SYNC_FOR_DEVICE)
            if (const auto doubt = unsynced_sink_doubt(line, range))
                unsynced.add(finding_kind::STALE_SINK, line, *doubt);
        writeback(line, conflicts);
        fetch(line);
    });
    if (report_redundant && !is_needed)
        visit_lines(range, [&](cache_line &line) { redundant.add(finding_kind::REDUNDANT, line); });
    conflicts.report_pending(); // before forget_writes(): it names the write
    unsynced.report_pending();
    const addr_range lines = round_out(range, config_.line_size);
    unsynced.drop_lines(at_process_end_, lines);
    writes_.for_each(lines, [&](const recorded_write &write) {
        marks_.make_defined(intersection(write.range, lines));
    });
    forget_writes(range);
}

/// The program syncs before a peer reads: dirty lines are written back.
void cache_model::sync_writeback(const addr_range *ranges, std::size_t count) {
    const lock_guard guard(mutex_);
    for (std::size_t i = 0; i < count; ++i)
        writeback_range(event_kind::SYNC_WRITEBACK, ranges[i], reports_redundant());
}

void cache_model::begin_sync(addr_range range) {
    const lock_guard guard(mutex_);
    visit_lines(range, [&](cache_line &line) {
        if (!is_dirty(line)) // needs no sync
            return;
        begun_syncs_[std::this_thread::get_id()].push_back(line.range());
        incomplete_syncs_.add(line.range());
    });
}

void cache_model::end_syncs() {
    const lock_guard guard(mutex_);
    const auto begun = begun_syncs_.extract(std::this_thread::get_id());
    if (!begun)
        return;
    for (const addr_range lines : begun.mapped())
        incomplete_syncs_.remove(lines);
}

/// The program syncs before or after a peer writes: dirty lines are written back, stale ones
/// fetched, and recorded writes of peers to these lines are forgotten.
void cache_model::sync_invalidate(const addr_range *ranges, std::size_t count) {
    const lock_guard guard(mutex_);
    for (std::size_t i = 0; i < count; ++i)
        writeback_invalidate_range(event_kind::SYNC_INVALIDATE, ranges[i], reports_redundant());
}

// Syncs of local memory are never redundant: the program makes them at each post and completion,
// whether or not lines have changed.

void cache_model::sync_source_for_device(const addr_range *ranges, std::size_t count) {
    const lock_guard guard(mutex_);
    for (std::size_t i = 0; i < count; ++i)
        writeback_range(event_kind::SYNC_FOR_DEVICE, ranges[i], false);
}

void cache_model::sync_sink_for_device(const addr_range *ranges, std::size_t count) {
    const lock_guard guard(mutex_);
    for (std::size_t i = 0; i < count; ++i)
        writeback_invalidate_range(event_kind::SYNC_FOR_DEVICE, ranges[i], false);
}

void cache_model::sync_sink_for_cpu(const addr_range *ranges, std::size_t count) {
    const lock_guard guard(mutex_);
    for (std::size_t i = 0; i < count; ++i)
        writeback_invalidate_range(event_kind::SYNC_FOR_CPU, ranges[i], false);
}

void cache_model::writeback_source(addr_range range) {
    writeback_local(event_kind::POST_SOURCE, range);
}

void cache_model::writeback_sink(addr_range range) {
    writeback_local(event_kind::POST_SINK, range);
}

/// kind: POST_SOURCE or POST_SINK: the program posts a WR with this local memory.
void cache_model::writeback_local(event_kind kind, addr_range range) {
    const lock_guard guard(mutex_);
    line_reporter conflicts(*this, nullptr);
    forget_never_synced(range);
    visit_lines_as_event(kind, range, capture_caller(),
                         [&](cache_line &line) { writeback(line, conflicts); });
}

/// The program polls the completion of a WR that wrote these bytes: fetches them. Dirty bytes
/// beside them stay.
void cache_model::fetch_sink(addr_range bytes) {
    const lock_guard guard(mutex_);
    line_reporter beside(*this, nullptr);
    visit_lines_as_event(event_kind::COMPLETE_SINK, bytes, {}, [&](cache_line &line) {
        if (is_dirty(line)) {
            if (config_.strict)
                beside.add(finding_kind::BESIDE, line);
            fetch_bytes(line, bytes);
        } else {
            fetch(line);
        }
        marks_.make_defined(intersection(bytes, line.range()));
    });
}

/// When the process begins to end, which deregisters all its memory: finds lines that the device
/// wrote and the program never fetched, and discards changes of shared memory. No process sees
/// private memory any more. When it returns, findings of other threads have been reported.
bool cache_model::on_process_end(process_end cause) {
    bool has_findings;
    {
        const lock_guard guard(mutex_);
        end_all_mrs(cause);
        has_findings = at_process_end_.has_findings();
    }
    mutex_.report_all();
    return has_findings;
}

/// Whether a line is stale because the program has passed it over: a signal ends the process.
bool cache_model::is_judged_at_signal(const cache_line &line) const {
    constexpr std::chrono::seconds MIN_AGE(1);
    const recorded_write *const write = find_last_write(line.range());
    return write != nullptr && write->completion &&
           std::chrono::steady_clock::now() - write->completion_time >= MIN_AGE;
}

void cache_model::end_all_mrs(process_end cause) {
    std::map<std::uintptr_t, std::uintptr_t> end_by_begin;
    for (std::size_t i = 0; i < mrs_.size(); ++i) {
        const addr_range range = mrs_.at_index(i).range;
        std::uintptr_t &end = end_by_begin[range.begin];
        end = std::max(end, range.end);
    }
    std::uintptr_t visited_end = 0; // MRs may overlap, or share a page: each line is visited once
    for (const auto &[begin, end] : end_by_begin) {
        const addr_range pages = round_out({begin, end}, page_size());
        const range_set known_writes = find_known_writes(pages);
        line_reporter stale_lines(*this, nullptr, &at_process_end_),
            discarded(*this, nullptr, &at_process_end_);
        visit_lines_as_event(event_kind::EXIT,
                             {std::max(visited_end, pages.begin), std::max(visited_end, pages.end)},
                             {}, [&](cache_line &line) {
                                 // Another process that shares the page may still sync it.
                                 if (!page_store_.has_no_other_holder(*line.extent, line.addr))
                                     return;
                                 const bool is_reported =
                                     (cause != process_end::SIGNAL || is_judged_at_signal(line)) &&
                                     report_if_stale(line, known_writes, stale_lines);
                                 if (line.extent->shared != nullptr)
                                     discard_changes(line, is_reported, discarded);
                             });
        visited_end = std::max(visited_end, pages.end);
    }
}

void cache_model::report_process_end() {
    unposted_checks unreported;
    {
        const lock_guard guard(mutex_);
        unreported = std::exchange(at_process_end_, {});
    }
    report_posted(unreported);
}

} // namespace coherdma::emulation

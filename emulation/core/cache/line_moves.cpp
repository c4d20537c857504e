// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// How lines move between the copies, by syncs and by the modes poison and evict.

#include "cache_line.hpp"
#include "cache_model.hpp"
#include "core/findings/line_reporter.hpp"

#include <algorithm>

namespace coherdma::emulation {
/// The program has changed the line; poison is not a change.
bool cache_model::is_dirty(const cache_line &line) const {
    if (line.program_hash == line.last_equal_hash)
        return false;
    if (poisoned_.empty())
        return true;
    const auto it = poisoned_.find(line.addr);
    return it == poisoned_.end() || it->second != line.program_hash;
}

/// Copies a dirty line to the device; reports a conflict if the device wrote it, too.
void cache_model::writeback(cache_line &line, line_reporter &conflicts) {
    if (!is_dirty(line))
        return;
    if (line.is_stale()) {
        // The conflict may have been reported at the peer's request already.
        recorded_write *const write = find_last_write(line.range());
        if (write == nullptr || !write->reported)
            conflicts.add(conflict_kind(line), line);
        if (write != nullptr)
            write->was_in_conflict = true;
    }
    line.copy_to_device(line.program_bytes.data());
    line.device_bytes = line.program_bytes;
    line.device_hash = line.program_hash;
    line.set_last_equal(line.program_hash);
    drop_poison_and_marks(line.addr);
}

/// Copies a line that is not dirty from the device.
void cache_model::fetch(cache_line &line) {
    // Not is_stale(): poison must go even if the device has restored the old bytes.
    if (is_dirty(line) || line.program_hash == line.device_hash)
        return;
    // The words before the hash: if the program's memory is gone, nothing has changed.
    if (line.copy_to_program(line.device_bytes.data()) != 0)
        return;
    line.set_last_equal(line.device_hash);
    never_synced_.remove(line.range()); // its bytes are not the program's any more
    drop_poison_and_marks(line.addr);
}

/// Copies only these bytes from the device; the program's other bytes of the line stay dirty.
void cache_model::fetch_bytes(cache_line &line, addr_range bytes) {
    const addr_range part = intersection(bytes, line.range());
    std::array<unsigned char, MAX_LINE_SIZE> merged = line.program_bytes;
    std::memcpy(&merged[part.begin - line.addr], &line.device_bytes[part.begin - line.addr],
                part.size());
    if (line.copy_to_program(merged.data()) != 0)
        return;
    line.set_last_equal(line.device_hash);
    drop_poison_and_marks(line.addr);
}

/// Overwrites the program's copy of bytes that the device changed.
void cache_model::poison_line(cache_line &line) {
    // In shared memory another process would take the poison for a change of the program.
    if (!line.is_stale() || is_dirty(line) || line.extent->shared != nullptr)
        return;
    std::array<unsigned char, MAX_LINE_SIZE> poisoned = line.program_bytes;
    for (std::size_t i = 0; i < line.size; ++i)
        if (line.program_bytes[i] != line.device_bytes[i])
            poisoned[i] = POISON;
    // Equal: poisoned before, and the device has changed no further byte.
    if (poisoned == line.program_bytes || line.copy_to_program(poisoned.data()) != 0)
        return;
    poisoned_[line.addr] = hash_of(poisoned.data(), line.size);
    never_synced_.remove(line.range()); // its bytes are not the program's any more
    marks_.renew(line.addr);
}

/// Ranges of whole lines whose device's copy has changed. The program's copy is not read.
std::vector<addr_range> cache_model::find_device_changes(addr_range range) {
    std::vector<addr_range> changed;
    page_store_.visit(
        round_out(range, config_.line_size), [&](addr_range part, page_extent &extent) {
            for (std::uintptr_t addr = part.begin; addr < part.end; addr += config_.line_size) {
                if (hash_of(extent.device + (addr - extent.pages.begin), config_.line_size) ==
                    stored_hash(extent, addr, config_.line_size).get())
                    continue;
                if (changed.empty() || changed.back().end != addr)
                    changed.push_back({addr, addr});
                changed.back().end = addr + config_.line_size;
            }
        });
    return changed;
}

/// Poisons the stale lines of the range. Returns whether the device has changed all its lines.
bool cache_model::poison_part(addr_range range) {
    const addr_range lines = round_out(range, config_.line_size);
    std::size_t num_changed = 0;
    for (const addr_range &changed : find_device_changes(lines)) {
        num_changed += changed.size();
        visit_lines(changed, [&](cache_line &line) { poison_line(line); });
    }
    return num_changed == lines.size();
}

/// Poisons stale lines that peers' announced requests wrote: of requests in turn, as many as have
/// max_bytes bytes. A request is done when all its data have arrived; run_background_step() finds
/// what arrives later.
void cache_model::poison_recorded_writes(std::size_t max_bytes) {
    writes_.visit_pending(max_bytes, [&](addr_range part) { return poison_part(part); });
    has_unpoisoned_writes_ = writes_.has_pending();
}

/// One line of registered memory; empty if no memory is registered.
addr_range cache_model::random_line() {
    const auto random_below = [&](std::size_t end) {
        return static_cast<std::size_t>(rng_() % end);
    };
    addr_range range;
    // Memory in use is more likely to show a bug.
    if (!synced_ranges_.empty() && random_below(2) == 0) {
        range = synced_ranges_[random_below(synced_ranges_.size())];
    } else {
        if (mrs_.size() == 0)
            return {};
        range = mrs_.at_index(random_below(mrs_.size())).range;
    }
    if (range.empty())
        return {};
    const std::uintptr_t addr = range.begin + random_below(range.size());
    return round_out({addr, addr + 1}, config_.line_size);
}

/// Mode evict: moves lines as a cache might at any moment.
void cache_model::evict_random_lines(int count) {
    line_reporter conflicts(*this, nullptr);
    for (int i = 0; i < count; ++i)
        visit_lines(random_line(), [&](cache_line &line) {
            switch (const line_state state = state_of(line)) {
            case line_state::DIRTY:
                history_.add(event_kind::EVICT_WRITEBACK, line.range())
                    .add_line(line.range(), state);
                writeback(line, conflicts);
                break;
            case line_state::STALE:
                history_.add(event_kind::EVICT_FETCH, line.range()).add_line(line.range(), state);
                fetch(line);
                break;
            default: // a line in conflict stays until the program syncs it
                break;
            }
        });
}

/// At each post and poll: poisons stale lines or moves random ones, if the mode does so. It costs
/// little, as a program may poll all the time; more if the poll found completions, since the data
/// of earlier requests have arrived then.
void cache_model::on_post_or_poll(bool found_completions) {
    constexpr int LINES_PER_CALL = 4;
    constexpr std::size_t BYTES_PER_CALL = 1 << 15, BYTES_PER_COMPLETION = 1 << 22;
    if (config_.mode == cache_mode::POISON) {
        if (!has_unpoisoned_writes_)
            return;
        const lock_guard guard(mutex_);
        poison_recorded_writes(found_completions ? BYTES_PER_COMPLETION : BYTES_PER_CALL);
    } else if (config_.mode == cache_mode::EVICT) {
        const lock_guard guard(mutex_);
        evict_random_lines(LINES_PER_CALL);
    }
}

/// The next part, at most 1 MiB, of the MRs that peers can access. Returns an empty range after the
/// last one, then starts over. Finds the Writes of peers that did not announce them.
addr_range cache_model::next_scan_range() {
    constexpr std::size_t MAX_LENGTH = 1 << 20;
    addr_range next = mrs_.find_remote_memory(scan_pos_);
    next.end = std::min(next.end, next.begin + MAX_LENGTH);
    scan_pos_ = next.end; // 0 if there is no next one
    return next;
}

/// Called again and again by a thread: evicts, or poisons and marks the lines that changed since,
/// one part of the memory after another.
void cache_model::run_background_step() {
    constexpr int LINES_PER_CALL = 64, RANGES_PER_CALL = 16;
    constexpr std::size_t BYTES_PER_RANGE = 1 << 20;
    for (int i = 0; i < RANGES_PER_CALL; ++i) { // other threads get the mutex in between
        const lock_guard guard(mutex_);
        if (config_.mode == cache_mode::EVICT)
            return evict_random_lines(LINES_PER_CALL);
        const addr_range range = next_scan_range();
        if (config_.mode == cache_mode::POISON) {
            poison_recorded_writes(BYTES_PER_RANGE);
            visit_lines(range, [&](cache_line &line) { poison_line(line); });
        }
        mark_long_stale(range);
        if (scan_pos_ == 0)
            return;
    }
}

} // namespace coherdma::emulation

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// How a line moves.

#include "cache.hpp"
#include "line.hpp"
#include "rows.hpp"

#include <algorithm>

namespace coherdma::emulation {
namespace {

constexpr unsigned char POISON = 0xdb;

} // namespace

bool cache::is_dirty(const line &one) const {
    if (one.program_hash == one.agreed)
        return false;
    if (poisoned_.empty())
        return true;
    const auto found = poisoned_.find(one.at);
    return found == poisoned_.end() || found->second != one.program_hash;
}

void cache::write_back(line &one, rows &conflicts) {
    if (!is_dirty(one))
        return;
    if (one.stale()) {
        // If a peer's request has told of it already, once is enough.
        const written *const by = writer_of(one.where());
        if (by == nullptr || !by->reported)
            conflicts.add(kind::CONFLICT, one);
    }
    one.set_device(one.program_had.data());
    one.device_had = one.program_had;
    one.device_hash = one.program_hash;
    one.agree(one.program_hash);
    is_settled(one.at);
}

void cache::fetch(line &one) {
    // Poison has to go even where the device has what it had before.
    if (is_dirty(one) || one.program_hash == one.device_hash)
        return;
    // The words before the hash: should the program be gone, nothing has changed.
    if (one.set_program(one.device_had.data()) != 0)
        return;
    one.agree(one.device_hash);
    is_settled(one.at);
}

/// Those bytes are the device's, the others of the line stay the program's.
void cache::merge(line &one, span bytes) {
    const span part = common(bytes, one.where());
    std::array<unsigned char, LARGEST_LINE> next = one.program_had;
    std::memcpy(&next[part.begin - one.at], &one.device_had[part.begin - one.at], part.size());
    if (one.set_program(next.data()) != 0)
        return;
    one.agree(one.device_hash);
    is_settled(one.at);
}

void cache::poison(line &one) {
    // Another process would take poison for the program's own.
    if (!one.stale() || is_dirty(one) || one.of->common != nullptr)
        return;
    std::array<unsigned char, LARGEST_LINE> next = one.program_had;
    for (std::size_t at = 0; at < one.size; ++at)
        if (one.program_had[at] != one.device_had[at])
            next[at] = POISON;
    // What is poisoned already, and the device has written more of, becomes it wholly.
    if (next == one.program_had || one.set_program(next.data()) != 0)
        return;
    poisoned_[one.at] = hash_of(next.data(), one.size);
    marks_.renew(one.at);
}

/// Lines, by the device's memory alone.
std::vector<span> cache::news_in(span where) {
    std::vector<span> changed;
    store_.each(rounded(where, asked_.line), [&](span part, run &of) {
        for (std::uintptr_t at = part.begin; at < part.end; at += asked_.line) {
            if (hash_of(of.device + (at - of.pages.begin), asked_.line) ==
                agreement(of, at, asked_.line).get())
                continue;
            if (changed.empty() || changed.back().end != at)
                changed.push_back({at, at});
            changed.back().end = at + asked_.line;
        }
    });
    return changed;
}

void cache::poison_news() {
    for (const written &each : written_)
        walk(each.where, [&](line &one) { poison(one); });
}

span cache::some_line() {
    const auto below = [&](std::size_t end) {
        return static_cast<std::size_t>(chance_() % end);
    };
    span from;
    if (!synced_.empty() && below(2) == 0) { // where something has happened of late
        from = synced_[below(synced_.size())].where;
    } else {
        if (regions_.empty())
            return {};
        from = std::next(regions_.begin(), static_cast<std::ptrdiff_t>(below(regions_.size())))
                   ->second.where;
    }
    if (from.empty())
        return {};
    const std::uintptr_t at = from.begin + below(from.size());
    return rounded({at, at + 1}, asked_.line);
}

void cache::move_some(int lines) {
    rows conflicts(*this, nullptr);
    for (int each = 0; each < lines; ++each)
        walk(some_line(), [&](line &one) {
            // One in conflict is left to the sync that should have been.
            if (!one.stale())
                write_back(one, conflicts);
            else if (!is_dirty(one))
                fetch(one);
        });
}

void cache::step() {
    constexpr int AT_A_CALL = 4;
    if (asked_.plays != mode::POISON && asked_.plays != mode::EVICT)
        return;
    const holding held(guard_);
    if (asked_.plays == mode::POISON)
        poison_news();
    else
        move_some(AT_A_CALL);
}

/// The next piece of remote memory, with the first behind the last; a program may wait for it to
/// change and make no call.
span cache::next_piece() {
    constexpr std::size_t LOOKED_AT = 1 << 20;
    span next;
    for (const auto &[number, each] : regions_) {
        const span left = common(each.where, {wandered_, ~std::uintptr_t{0}});
        if (each.is_remote() && !left.empty() && (next.empty() || left.begin < next.begin))
            next = left;
    }
    next.end = std::min(next.end, next.begin + LOOKED_AT);
    wandered_ = next.end; // 0 once there are no more: from the first again
    return next;
}

void cache::wander() {
    constexpr int AT_A_TIME = 64, PIECES = 16;
    for (int each = 0; each < PIECES; ++each) { // between two of them others have their turn
        const holding held(guard_);
        if (asked_.plays == mode::EVICT)
            return move_some(AT_A_TIME);
        const span where = next_piece();
        if (asked_.plays == mode::POISON)
            poison_news(), walk(where, [&](line &one) { poison(one); });
        mark_old(where);
        if (wandered_ == 0)
            return;
    }
}

} // namespace coherdma::emulation

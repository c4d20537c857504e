// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Regions and syncs.

#include "cache.hpp"
#include "line.hpp"
#include "rows.hpp"

#include <algorithm>
#include <cerrno>
#include <unistd.h>

namespace coherdma::emulation {
namespace {

std::size_t page_size() noexcept {
    return static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

} // namespace

cache::cache(const settings &asked, findings &to, const watcher *by)
    : asked_(asked)
    , to_(to)
    , store_(page_size(), page_size() / asked_.line * hash_bytes(asked_.line))
    , marks_(by)
    , chance_(asked.seed) {}

cache::~cache() = default;

std::size_t cache::bytes() {
    const holding held(guard_);
    return store_.bytes();
}

int cache::walk(span where, const on_line &visit) {
    int error = 0;
    line one;
    one.size = asked_.line;
    store_.each(rounded(where, asked_.line), [&](span part, run &of) {
        one.of = &of;
        for (std::uintptr_t at = part.begin; at < part.end && error == 0; at += AT_ONCE) {
            const std::uintptr_t end = std::min(at + AT_ONCE, part.end);
            error = program::read(at, chunk_.data(), end - at);
            for (one.at = at; one.at < end && error == 0; one.at += one.size) {
                const unsigned char *const program = &chunk_[one.at - at];
                one.device = of.device + (one.at - of.pages.begin);
                one.agreed = agreement(of, one.at, one.size).get();
                one.program_hash = hash_of(program, one.size);
                std::memcpy(one.program_had.data(), program, one.size);
                std::memcpy(one.device_had.data(), one.device, one.size);
                one.device_hash = hash_of(one.device_had.data(), one.size);
                settle(one);
                visit(one);
            }
        }
    });
    return error;
}

/// Both have become the same: whoever changed what, they agree.
void cache::settle(line &one) {
    if (one.program_hash != one.device_hash)
        return;
    if (one.agreed != one.program_hash)
        one.agree(one.program_hash);
    is_settled(one.at);
}

void cache::is_settled(std::uintptr_t line) {
    poisoned_.erase(line);
    marks_.lift(line);
}

int cache::add(region &what, std::vector<piece> &pieces) {
    const holding held(guard_);
    const span pages = rounded(what.where, page_size());
    int error = 0;
    const auto fill = [&](span fresh, run &of) {
        unsigned char *const device = of.device + (fresh.begin - of.pages.begin);
        if (error == 0)
            error = program::read(fresh.begin, device, fresh.size());
        for (std::uintptr_t at = fresh.begin; at < fresh.end && error == 0; at += asked_.line)
            agreement(of, at, asked_.line).set(hash_of(device + (at - fresh.begin), asked_.line));
    };
    std::string why;
    int full = store_.hold(pages, fill, &why);
    if (full == store::ESHARED) {
        to_.note("memory that processes share is separate for this one: " + why);
        full = store_.hold(pages, fill);
    }
    if (full != 0)
        return full;
    if (error != 0) {
        store_.let_go(pages);
        return error;
    }
    what.number = next_number_++;
    regions_[what.number] = what;
    pieces.clear();
    store_.each(pages, [&](span part, const run &of) {
        pieces.push_back(
            {part.begin, part.size(), of.file, of.place + (part.begin - of.pages.begin)});
    });
    return 0;
}

void cache::name(std::uint32_t number, std::uint32_t lkey, std::uint32_t rkey) {
    const holding held(guard_);
    region &one = regions_.at(number);
    one.lkey = lkey;
    one.rkey = rkey;
}

void cache::allow(std::uint32_t number, bool readable, bool writable) {
    const holding held(guard_);
    region &one = regions_.at(number);
    one.readable = readable;
    one.writable = writable;
}

void cache::remove(std::uint32_t number) {
    const holding held(guard_);
    const auto found = regions_.find(number);
    if (found == regions_.end())
        return;
    const span pages = rounded(found->second.where, page_size());
    const span lines = rounded(found->second.where, asked_.line);
    std::vector<span> others; // what other regions have of these
    for (const auto &[other, each] : regions_)
        if (other != number && !common(rounded(each.where, asked_.line), lines).empty())
            others.push_back(rounded(each.where, asked_.line));
    // The last of this process to have this line. Where it is mapped twice, pages tell.
    const auto leaves = [&](const line &one) {
        return one.of->common != nullptr
                   ? store_.is_held_once(*one.of, one.at)
                   : std::none_of(others.begin(), others.end(),
                                  [&](span each) { return !common(each, one.where()).empty(); });
    };
    { // told of before its writers are forgotten
        rows left(*this, nullptr), dropped(*this, nullptr);
        walk(pages, [&](line &one) {
            const bool is_own = !common(lines, one.where()).empty();
            const bool told = is_own && leaves(one) && tell_left(one, left);
            if (!store_.is_held_once(*one.of, one.at))
                return; // another region has the page, or another process
            if (!told && asked_.discards && is_dirty(one))
                dropped.add(kind::DISCARDED, one);
            if (asked_.discards && one.program_hash != one.device_hash)
                one.set_program(one.device_had.data());
            poisoned_.erase(one.at);
        });
    }
    forget_writes(found->second.where);
    marks_.lift_all(rounded(found->second.where, asked_.line));
    store_.let_go(pages);
    regions_.erase(found);
}

/// What the device has written and the program never got, of whom nobody has told yet.
bool cache::tell_left(const line &one, rows &left) {
    if (!one.stale())
        return false;
    if (!is_dirty(one)) {
        left.add(kind::STALE, one);
        return true;
    }
    const written *const by = writer_of(one.where());
    if (by != nullptr && by->reported)
        return false;
    left.add(kind::CONFLICT, one);
    return true;
}

int cache::check(const span *ranges, std::size_t count, std::uintptr_t *where) {
    const holding held(guard_);
    for (std::size_t each = 0; each < count; ++each) {
        int error = 0;
        store_.each(rounded(ranges[each], asked_.line), [&](span part, const run &) {
            for (std::uintptr_t at = part.begin; at < part.end && error == 0;
                 at = (at | (page_size() - 1)) + 1) {
                unsigned char byte;
                error = program::read(at, &byte, 1);
                *where = at;
            }
        });
        if (error != 0)
            return error;
    }
    return 0;
}

/// Not where lines move by themselves: whether a sync was needed is chance there.
bool cache::tells_redundant() const noexcept {
    return asked_.redundant && asked_.plays != mode::EVICT;
}

void cache::sync_read(const span *ranges, std::size_t count) {
    const holding held(guard_);
    for (std::size_t each = 0; each < count; ++each) {
        rows conflicts(*this, nullptr), clean(*this, nullptr);
        bool needed = false;
        remember(ranges[each], false);
        walk(ranges[each], [&](line &one) {
            needed = needed || is_dirty(one);
            write_back(one, conflicts);
        });
        if (tells_redundant() && !needed)
            walk(ranges[each], [&](line &one) { clean.add(kind::REDUNDANT, one); });
    }
}

void cache::sync_write(const span *ranges, std::size_t count) {
    const holding held(guard_);
    for (std::size_t each = 0; each < count; ++each) {
        rows conflicts(*this, nullptr), clean(*this, nullptr);
        bool needed = false;
        remember(ranges[each], true);
        walk(ranges[each], [&](line &one) {
            needed = needed || is_dirty(one) || one.stale();
            write_back(one, conflicts);
            fetch(one);
        });
        if (tells_redundant() && !needed)
            walk(ranges[each], [&](line &one) { clean.add(kind::REDUNDANT, one); });
        conflicts.end(); // while it is known who wrote
        const span lines = rounded(ranges[each], asked_.line);
        for (const written &one : written_)
            marks_.define(common(one.where, lines));
        forget_writes(ranges[each]);
    }
}

void cache::source(span where) {
    const holding held(guard_);
    rows conflicts(*this, nullptr);
    walk(where, [&](line &one) { write_back(one, conflicts); });
}

void cache::sink(span where) {
    source(where);
}

void cache::arrived(span bytes) {
    const holding held(guard_);
    rows beside(*this, nullptr);
    walk(bytes, [&](line &one) {
        if (is_dirty(one)) {
            if (asked_.strict)
                beside.add(kind::BESIDE, one);
            merge(one, bytes);
        } else {
            fetch(one);
        }
        marks_.define(common(bytes, one.where()));
    });
}

void cache::finish() {
    const holding held(guard_);
    std::uintptr_t end = 0; // of what was told of: regions may have the same lines
    std::map<std::uintptr_t, span> all;
    for (const auto &[number, each] : regions_)
        all[each.where.begin].end = std::max(all[each.where.begin].end, each.where.end);
    for (const auto &[begin, each] : all) {
        const span lines = rounded({begin, each.end}, asked_.line);
        rows left(*this, nullptr);
        walk({std::max(end, lines.begin), std::max(end, lines.end)}, [&](line &one) {
            if (store_.is_ours(*one.of, one.at)) // another process may sync it yet
                tell_left(one, left);
        });
        end = std::max(end, lines.end);
    }
}

} // namespace coherdma::emulation

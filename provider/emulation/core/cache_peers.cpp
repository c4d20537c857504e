// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What peers do to registered memory, and what is known when something is to be told. A peer's
// request is looked at before it is posted: the program must have synced before it let the peer
// know, so the lines have to be clean by then, and nothing of the request has happened yet.

#include "cache.hpp"
#include "line.hpp"
#include "rows.hpp"

#include <algorithm>
#include <unistd.h>

namespace coherdma::emulation {
namespace {

constexpr std::size_t WRITES_KNOWN = 1024, SYNCS_KNOWN = 256;

bool overlap(span one, span other) noexcept {
    return !common(one, other).empty();
}

} // namespace

void cache::peer_reads(span where, const deed &by) {
    const holding held(guard_);
    rows dirty(*this, &by);
    walk(where, [&](line &one) {
        if (is_dirty(one) && one.differs_in(where))
            dirty.add(kind::UNSYNCED_READ, one);
    });
}

void cache::peer_writes(span where, const deed &by) {
    peer_comes(where, by, kind::UNSYNCED_WRITE);
}

void cache::peer_changes(span where, const deed &by) {
    peer_comes(where, by, kind::UNSYNCED_READ);
}

void cache::peer_comes(span where, const deed &by, kind if_dirty) {
    const holding held(guard_);
    bool reported = false;
    {
        rows dirty(*this, &by);
        walk(where, [&](line &one) {
            if (!is_dirty(one))
                return;
            dirty.add(if_dirty, one);
            reported = true;
        });
    }
    const auto same = std::find_if(written_.begin(), written_.end(), [&](const written &each) {
        return each.where.begin == where.begin && each.where.end == where.end;
    });
    if (same != written_.end())
        written_.erase(same);
    while (written_.size() >= WRITES_KNOWN) // syncs of parts have made more of some
        written_.pop_back();
    written_.push_front({where, by, reported});
}

const cache::written *cache::writer_of(span where) const {
    for (const written &each : written_)
        if (overlap(rounded(each.where, asked_.line), where))
            return &each;
    return nullptr;
}

void cache::forget_writes(span where) {
    const span lines = rounded(where, asked_.line);
    for (auto each = written_.begin(); each != written_.end();) {
        const span is = each->where;
        if (!overlap(is, lines)) {
            ++each;
            continue;
        }
        // What is on either side of it stays.
        if (is.begin < lines.begin)
            written_.insert(each,
                            {{is.begin, lines.begin}, each->by, each->reported, each->marked});
        if (is.end > lines.end)
            written_.insert(each, {{lines.end, is.end}, each->by, each->reported, each->marked});
        each = written_.erase(each);
    }
}

void cache::remember(span where, bool for_write) {
    if (synced_.size() == SYNCS_KNOWN)
        synced_.pop_back();
    synced_.push_front({where, for_write, asked_.stacks ? trace::here() : trace{}});
}

deed cache::last_sync_of(span where) const {
    deed last;
    for (const synced &each : synced_) {
        if (!overlap(rounded(each.where, asked_.line), where))
            continue;
        last.words = each.for_write ? "sync_rdma_write" : "sync_rdma_read";
        last.where = each.from;
        break;
    }
    return last;
}

region cache::region_of(span where) const {
    const region *best = nullptr;
    // What is dropped at deregistration may be elsewhere on its pages.
    for (const std::size_t unit : {asked_.line, static_cast<std::size_t>(sysconf(_SC_PAGESIZE))})
        for (const auto &[number, each] : regions_) {
            const bool whole = each.where.begin <= where.begin && where.end <= each.where.end;
            if (overlap(rounded(each.where, unit), where) && (best == nullptr || whole))
                best = &each;
        }
    return best != nullptr ? *best : region{};
}

} // namespace coherdma::emulation

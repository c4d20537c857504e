// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Which bytes a tool that watches the program is told of: those that the device has written, once
// the program may know of it. That is when data have come over a queue, which may be a word of the
// peer's; or a second later, for one that waits for a flag to change and makes no call. Not at
// once: a program may sync and look, in turns, and what is written between the two it finds next
// time.

#include "cache.hpp"
#include "line.hpp"

#include <utility>

namespace coherdma::emulation {
namespace {

constexpr std::chrono::seconds OLD{1};
constexpr std::size_t LOOKED_AT = 1 << 18; // when data have come, for what nobody told of

} // namespace

bool cache::wanders() const noexcept {
    return asked_.plays == mode::POISON || asked_.plays == mode::EVICT || marks_.by() != nullptr;
}

bool cache::mark(const line &one, span within) {
    // What both have changed is told of anyway. What processes share another may sync for all.
    if (!one.stale() || is_dirty(one) || one.of->common != nullptr)
        return false;
    if (!marks_told_)
        to_.note(std::string("what peers have written is marked until it is synced: ") +
                 marks_.by()->reports);
    marks_told_ = true;
    bool is_told = false;
    for (const written &each : written_) {
        const span part = common(each.where, one.where());
        if (part.empty() || !one.differs_in(part))
            continue; // it has not come yet
        marks_.put(one.at, part);
        is_told = true;
    }
    if (!is_told)
        mark_changed(one, common(within, one.where()));
    return true;
}

/// Of writes that nobody told of: what is between changed bytes is taken as written, too, if it is
/// less than a word.
void cache::mark_changed(const line &one, span part) {
    span row;
    for (std::uintptr_t at = part.begin; at < part.end; ++at) {
        if (!one.differs_in({at, at + 1}))
            continue;
        if (!row.empty() && at - row.end >= sizeof(program::word))
            marks_.put(one.at, std::exchange(row, {}));
        row = {row.empty() ? at : row.begin, at + 1};
    }
    if (!row.empty())
        marks_.put(one.at, row);
}

void cache::heard() {
    if (marks_.by() == nullptr)
        return;
    const holding held(guard_);
    for (written &each : written_) {
        if (each.marked)
            continue;
        each.marked = true;
        walk(each.where, [&](line &one) { each.marked = mark(one, each.where) && each.marked; });
    }
    std::size_t looked_at = 0;
    for (int ends = 0; looked_at < LOOKED_AT && ends < 2;) { // all of it, should it be little
        const span where = next_piece();
        looked_at += where.size();
        ends += wandered_ == 0;
        for (const span &each : news_in(where))
            walk(each, [&](line &one) { mark(one, where); });
    }
}

void cache::mark_old(span where) {
    if (marks_.by() == nullptr)
        return;
    for (const span &each : news_in(where))
        walk(each, [&](line &one) {
            if (one.stale() && marks_.is_old(one.at, OLD))
                mark(one, where);
        });
}

} // namespace coherdma::emulation

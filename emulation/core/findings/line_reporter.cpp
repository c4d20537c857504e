// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "line_reporter.hpp"

#include "missing_place.hpp"

#include <algorithm>

namespace coherdma::emulation {
namespace {

constexpr std::size_t MAX_BYTES_SHOWN = 16, MAX_EVENTS_SHOWN = 32;

using bytes = std::vector<unsigned char>;

} // namespace

/// Sets the doubt of the finding, and shows the line's bytes from the first that differs.
void line_reporter::show(finding &shown, finding_doubt doubt, const cache_line &line) {
    const auto *const program = line.program_bytes.data(), *const device = line.device_bytes.data();
    const auto begin = static_cast<std::size_t>(
        std::mismatch(program, program + line.size, device).first - program);
    const std::size_t end = std::min(begin + MAX_BYTES_SHOWN, line.size);
    shown.doubt = doubt;
    shown.first_diff = line.addr + std::min(begin, line.size - 1);
    shown.program_bytes = bytes(program + begin, program + end);
    shown.device_bytes = bytes(device + begin, device + end);
    std::array<unsigned char, MAX_LINE_SIZE> last_equal;
    shown.last_equal_bytes.clear();
    if (line.recover_last_equal(last_equal.data()))
        shown.last_equal_bytes = bytes(last_equal.data() + begin, last_equal.data() + end);
}

void line_reporter::add(finding_kind kind, const cache_line &line, finding_doubt doubt) {
    if (pending_ && pending_->kind == kind && pending_->range.end == line.addr) {
        pending_->range.end += line.size;
        if (doubt < pending_->doubt)
            show(*pending_, doubt, line);
        return;
    }
    report_pending();
    finding new_finding;
    new_finding.kind = kind;
    new_finding.range = line.range();
    show(new_finding, doubt, line);
    pending_ = std::move(new_finding);
}

/// Adds the MR, the history, the request and the place of the missing sync to the pending finding,
/// and reports it.
void line_reporter::report_pending() {
    if (!pending_)
        return;
    finding completed = std::move(*pending_);
    pending_.reset();
    completed.mr = cache_.find_mr(completed.range);
    completed.line_size = cache_.config_.line_size;
    completed.history = cache_.history_.find_last(completed.range, MAX_EVENTS_SHOWN);
    const last_syncs::sync *const sync = cache_.last_syncs_.find(completed.range);
    if (sync != nullptr)
        completed.last_sync = {event_name(sync->kind), sync->stack, {}};
    const auto *const write = cache_.find_last_write(completed.range);
    if (request_ != nullptr)
        completed.request = *request_;
    else if (write != nullptr)
        completed.request = write->request;
    find_missing_place(completed, sync,
                       write != nullptr && write->completion ? &*write->completion : nullptr);
    if (unposted_ != nullptr && unposted_->findings_.size() < unposted_checks::MAX_FINDINGS)
        unposted_->findings_.emplace_back(std::move(completed));
    else
        cache_.mutex_.add(std::move(completed));
}

/// The finding on a part of its lines; shows the first one there that differs now.
kept_finding line_reporter::part_of(const finding &whole, addr_range part) {
    finding rest = whole;
    rest.range = part;
    rest.mr = cache_.find_mr(part);
    if (rest.first_diff < part.begin || rest.first_diff >= part.end) {
        rest.first_diff = part.begin;
        rest.program_bytes = rest.device_bytes = rest.last_equal_bytes = {};
        cache_.visit_lines(part, [&](const cache_line &line) {
            if (rest.program_bytes.empty() && line.program_hash != line.device_hash)
                show(rest, whole.doubt, line);
        });
    }
    return kept_finding(std::move(rest));
}

void line_reporter::drop_lines(unposted_checks &checks, addr_range lines) {
    std::vector<kept_finding> rests;
    std::erase_if(checks.findings_, [&](const kept_finding &each) {
        const addr_range range = each.get().range, dropped = intersection(range, lines);
        if (dropped.empty())
            return false;
        if (range.begin < dropped.begin)
            rests.push_back(part_of(each.get(), {range.begin, dropped.begin}));
        if (dropped.end < range.end)
            rests.push_back(part_of(each.get(), {dropped.end, range.end}));
        return true;
    });
    for (kept_finding &rest : rests)
        checks.findings_.push_back(std::move(rest));
}

} // namespace coherdma::emulation

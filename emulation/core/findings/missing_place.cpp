// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "missing_place.hpp"

#include <algorithm>

namespace coherdma::emulation {
namespace {

constexpr std::size_t NONE = finding::NO_EVENT;
constexpr const char *COMPLETION = "the completion polled";

bool is_peer_request(event_kind kind) noexcept {
    return kind == event_kind::PEER_RDMA_READ || kind == event_kind::PEER_RDMA_WRITE ||
           kind == event_kind::PEER_ATOMIC;
}
bool is_write(event_kind kind) noexcept {
    return kind == event_kind::PEER_RDMA_WRITE || kind == event_kind::PEER_ATOMIC ||
           kind == event_kind::REQUEST_COMPLETE;
}
/// Whether stale lines are fetched by the event.
bool fetches(event_kind kind) noexcept {
    return kind == event_kind::SYNC_INVALIDATE || kind == event_kind::SYNC_FOR_CPU ||
           kind == event_kind::COMPLETE_SINK || kind == event_kind::EVICT_FETCH;
}

/// A call of this process whose place is known. The stack of REQUEST_COMPLETE is that of the post.
bool is_own_call(const history_event &event) noexcept {
    return event.access.peer_stack.empty() && event.access.stack.depth != 0 &&
           event.kind != event_kind::REQUEST_COMPLETE;
}

/// "RDMA Write" of "RDMA Write of 64 bytes, ..."
std::string operation_of(const mem_access &request) {
    return request.text.substr(0, request.text.find(" of "));
}

/// The event in a sentence, without its place.
std::string name_event(const history_event &event) {
    switch (event.kind) {
    case event_kind::REG_MR:
        return "the registration";
    case event_kind::SYNC_WRITEBACK:
    case event_kind::SYNC_INVALIDATE:
    case event_kind::SYNC_FOR_DEVICE:
    case event_kind::SYNC_FOR_CPU:
        return "the sync";
    case event_kind::COMPLETE_SINK:
    case event_kind::REQUEST_COMPLETE:
    case event_kind::DATA_RECEIVED:
        return COMPLETION;
    case event_kind::DEREG_MR:
        return "the deregistration";
    case event_kind::EXIT:
        return "the end of the process";
    case event_kind::EVICT_WRITEBACK:
    case event_kind::EVICT_FETCH:
        return "";
    default:
        return is_peer_request(event.kind) && !is_own_call(event)
                   ? "the peer's " + operation_of(event.access)
                   : "the post";
    }
}

mem_access place_of(const history_event &event) {
    return {name_event(event), is_own_call(event) ? event.access.stack : stack_trace{}, {}};
}

/// Goes through the history of a finding.
class place_search {
  public:
    explicit place_search(const finding &subject)
        : finding_(subject)
        , events_(subject.history)
        , last_(events_.size() - 1) {}

    /// The request that the finding names, which is its last event on these lines.
    [[nodiscard]] std::size_t find_request() const {
        for (std::size_t i = events_.size(); i-- > 0;)
            if (!finding_.request.text.empty() && events_[i]->access.text == finding_.request.text)
                return i;
        return last_;
    }

    /// The first event since which all have found a line stale, that is, which the device wrote
    /// before. NONE: the last event has not found one.
    [[nodiscard]] std::size_t find_first_stale() const {
        std::size_t first = NONE;
        for (std::size_t i = 0; i < events_.size(); ++i) {
            bool is_known = false, is_stale = false;
            for (const history_event::line_run &run : events_[i]->runs) {
                if (intersection(run.lines, finding_.range).empty())
                    continue;
                is_known = true;
                is_stale =
                    is_stale || run.state == line_state::STALE || run.state == line_state::CONFLICT;
            }
            if (is_known)
                first = !is_stale ? NONE : std::min(first, i);
            if (fetches(events_[i]->kind) && i != last_)
                first = NONE;
        }
        return first;
    }

    /// The last write of the device before an event; it may also be the event itself, which is the
    /// completion then.
    [[nodiscard]] std::size_t find_write(std::size_t event) const {
        if (events_[event]->kind == event_kind::REQUEST_COMPLETE)
            return event;
        for (std::size_t i = event; i-- > 0;)
            if (is_write(events_[i]->kind))
                return i;
        return NONE;
    }

    [[nodiscard]] std::size_t find_data_received(std::size_t begin) const {
        for (std::size_t i = begin; i < last_; ++i)
            if (events_[i]->kind == event_kind::DATA_RECEIVED)
                return i;
        return NONE;
    }

    [[nodiscard]] std::size_t next_own_call(std::size_t begin) const {
        for (std::size_t i = begin; i < events_.size(); ++i)
            if (is_own_call(*events_[i]) && events_[i]->kind != event_kind::DATA_RECEIVED)
                return i;
        return last_;
    }

    /// Requests of a peer in this process do not count: they are no part of what the owner of the
    /// memory does.
    [[nodiscard]] std::size_t last_own_call(std::size_t end) const {
        for (std::size_t i = end; i-- > 0;)
            if (is_own_call(*events_[i]) && !is_peer_request(events_[i]->kind))
                return i;
        return NONE;
    }

  private:
    const finding &finding_;
    const std::vector<const history_event *> &events_;
    const std::size_t last_;
};

/// The last of these calls before an event, if the history has none: the sync of the lines, the
/// registration of their memory.
mem_access last_known_call(const finding &finding, const last_syncs::sync *last_sync,
                           std::uint64_t event_number) {
    if (last_sync != nullptr && last_sync->number < event_number &&
        last_sync->number > finding.mr.event_number)
        return {"the sync", last_sync->stack, {}};
    return {"the registration", finding.mr.reg_stack, {}};
}

bool is_after_write(finding_kind kind) noexcept {
    return kind == finding_kind::STALE || kind == finding_kind::CONFLICT ||
           kind == finding_kind::STALE_SINK || kind == finding_kind::CONFLICT_SINK;
}

} // namespace

void find_missing_place(finding &finding, const last_syncs::sync *last_sync,
                        const stack_trace *completion) {
    if (*missing_sync(finding.kind) == '\0' || finding.kind == finding_kind::BESIDE ||
        finding.kind == finding_kind::SHARED_LINE || finding.history.empty())
        return;
    const place_search search(finding);
    std::size_t completed = NONE, before = finding.history.size() - 1;
    if (is_after_write(finding.kind)) {
        const std::size_t first_stale = search.find_first_stale();
        const std::size_t write = search.find_write(first_stale != NONE ? first_stale : before);
        std::size_t begin = write != NONE ? write + 1 : before;
        if (write != NONE)
            completed = search.find_data_received(begin);
        if (completed != NONE)
            begin = completed + 1;
        if (first_stale != NONE)
            begin = std::max(begin, first_stale);
        before = search.next_own_call(begin);
    } else if (finding.kind != finding_kind::DISCARDED) {
        before = search.find_request();
    }
    finding.missing_before = before;
    finding.before = place_of(*finding.history[before]);
    if (completed != NONE)
        finding.after = place_of(*finding.history[completed]);
    else if (is_after_write(finding.kind) && completion != nullptr)
        finding.after = {COMPLETION, *completion, {}};
    else if (const std::size_t call = search.last_own_call(before); call != NONE)
        finding.after = place_of(*finding.history[call]);
    else
        finding.after = last_known_call(finding, last_sync, finding.history[before]->number);
}

} // namespace coherdma::emulation

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "emulate/timeline.hpp"

#include <algorithm>
#include <charconv>
#include <set>

namespace tools::emulate {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t NONE = timeline_row::NONE;

bool is_dirty(const std::string &state) {
    return state == "dirty" || state == "conflict";
}
bool is_stale(const std::string &state) {
    return state == "stale" || state == "conflict";
}
bool device_may_write(const std::string &event) {
    return event == "peer_rdma_write" || event == "peer_atomic" || event == "post_sink" ||
           event == "request_sink";
}

/// The state in which an event leaves a line that it found in this state.
std::string state_after(const std::string &event, const std::string &state) {
    if (event == "sync_invalidate" || event == "sync_for_cpu" || event.starts_with("evict_"))
        return "clean";
    // The direction of sync_for_device is not known: stale lines are left to the next event.
    if (event == "sync_writeback" || event == "sync_for_device" || event == "post_source" ||
        event == "post_sink")
        return is_dirty(state) ? "clean" : state;
    if (event == "complete_sink")
        return is_dirty(state) ? "dirty" : "clean";
    return event == "reg_mr" && state.empty() ? "clean" : state;
}

/// Lines with what is known of them while the events are replayed.
struct replayed_segment {
    std::int64_t begin = 0, end = 0;
    std::string state;              ///< "": no event has found it yet
    std::size_t last_event = NONE;  ///< on these lines
    std::size_t write_event = NONE; ///< the last one whose request makes the device write them
};

/// Goes through the events in order, and adds their rows and the inferred ones to the timeline.
class replay {
  public:
    replay(timeline &result, std::int64_t begin, std::int64_t end)
        : result_(result) {
        std::set<std::int64_t> bounds = {begin, end};
        for (const line_event &event : result.events)
            for (const line_event::line_run &run : event.runs)
                bounds.insert({std::clamp(run.begin, begin, end), std::clamp(run.end, begin, end)});
        for (auto it = bounds.begin(); std::next(it) != bounds.end(); ++it)
            segments_.push_back({*it, *std::next(it), {}, NONE, NONE});
    }

    void add_event(std::size_t index) {
        const line_event &event = result_.events[index];
        std::vector<std::string> states;
        for (const replayed_segment &segment : segments_)
            states.push_back(found_state(event, segment));
        add_inferred(row_kind::CPU_WROTE, index, states, is_dirty);
        add_inferred(row_kind::DEVICE_WROTE, index, states, is_stale);
        for (std::size_t i = 0; i < segments_.size(); ++i) {
            replayed_segment &segment = segments_[i];
            if (!is_part(event, segment))
                continue;
            segment.state = state_after(event.name, states[i]);
            segment.last_event = index;
            if (device_may_write(event.name))
                segment.write_event = index;
        }
        timeline_row row;
        row.event = index;
        row.segments = snapshot([&](std::size_t i) { return is_part(event, segments_[i]); });
        result_.rows.push_back(std::move(row));
    }

  private:
    static bool is_part(const line_event &event, const replayed_segment &segment) {
        return event.begin < segment.end && segment.begin < event.end;
    }

    /// The state in which the event found these lines; the last known one if it did not look.
    static std::string found_state(const line_event &event, const replayed_segment &segment) {
        for (const line_event::line_run &run : event.runs)
            if (run.begin <= segment.begin && segment.end <= run.end)
                return run.state;
        return segment.state;
    }

    template <class predicate>
    std::vector<line_segment> snapshot(const predicate &is_part_of_row) const {
        std::vector<line_segment> result;
        for (std::size_t i = 0; i < segments_.size(); ++i)
            result.push_back(
                {segments_[i].begin, segments_[i].end, segments_[i].state, is_part_of_row(i)});
        return result;
    }

    /// Adds a row "the CPU (or device) wrote" if the event found lines dirty (or stale), which
    /// is_changed tests, that were not so after the event before. states: as the event found them.
    void add_inferred(row_kind kind, std::size_t index, const std::vector<std::string> &states,
                      bool (*is_changed)(const std::string &)) {
        timeline_row row;
        row.kind = kind;
        row.event = index;
        std::vector<bool> changed;
        for (std::size_t i = 0; i < segments_.size(); ++i) {
            const replayed_segment &segment = segments_[i];
            changed.push_back(!segment.state.empty() && is_changed(states[i]) &&
                              !is_changed(segment.state));
            if (!changed.back())
                continue;
            row.since =
                row.since == NONE ? segment.last_event : std::min(row.since, segment.last_event);
            if (kind == row_kind::DEVICE_WROTE)
                row.cause = segment.write_event;
        }
        if (std::count(changed.begin(), changed.end(), true) == 0)
            return;
        for (std::size_t i = 0; i < segments_.size(); ++i)
            if (changed[i] && kind == row_kind::DEVICE_WROTE)
                segments_[i].state = states[i];
            else if (changed[i])
                segments_[i].state =
                    is_stale(segments_[i].state) && is_stale(states[i]) ? "conflict" : "dirty";
        row.segments = snapshot([&](std::size_t i) { return changed[i]; });
        result_.rows.push_back(std::move(row));
    }

    timeline &result_;
    std::vector<replayed_segment> segments_;
};

/// The index of the event before which the program should have synced; NONE: no sync is missing.
/// Bytes that the CPU wrote and did not sync are found, or discarded, by the last event. Bytes that
/// the device wrote and the CPU has not fetched are stale, or conflict with the CPU's own, from an
/// earlier event on: the row of the device's write has the event that follows it. There is an
/// event.
std::size_t find_missing_before(const timeline &line_timeline, const std::string &finding_kind) {
    const std::size_t last = line_timeline.events.size() - 1;
    if (finding_kind == "unsynced-read" || finding_kind == "unsynced-write" ||
        finding_kind == "unsynced-source" || finding_kind == "unsynced-sink" ||
        finding_kind == "discarded")
        return last;
    if (!finding_kind.starts_with("stale") && !finding_kind.starts_with("conflict"))
        return NONE;
    std::size_t stale_since = last;
    for (const timeline_row &row : line_timeline.rows)
        if (row.kind == row_kind::DEVICE_WROTE)
            stale_since = row.event;
    return stale_since;
}

/// Whether the calls of the stack are of this process.
bool is_of_process(const line_event &event, long pid) {
    return event.description.empty() ||
           event.description.find(" by process " + std::to_string(pid) + " (") != std::string::npos;
}

/// Two lines of one function, from which the calls of both stacks come: the outermost frames whose
/// lines differ. False if the stacks have other functions there.
bool find_common_function(const std::vector<std::string> &after,
                          const std::vector<std::string> &before, missing_place &place) {
    for (std::size_t i = 1; i <= std::min(after.size(), before.size()); ++i) {
        const source_frame first = parse_frame(after[after.size() - i]),
                           second = parse_frame(before[before.size() - i]);
        if (first.file.empty() || first.file != second.file || first.function != second.function)
            return false;
        place = {first, second};
        if (first.line != second.line)
            return true;
    }
    return place.after.line != 0;
}

source_frame innermost_frame(const std::vector<std::string> &stack) {
    for (const std::string &text : stack)
        if (const source_frame frame = parse_frame(text); !frame.file.empty())
            return frame;
    return {};
}

} // namespace

/// "main (/src/mailbox.c:120)", "main (mailbox.c:120)"; without a source line "main (/bin/x+0x12)".
source_frame parse_frame(const std::string &frame) {
    source_frame parsed;
    const std::size_t absolute = frame.find(" (/"), colon = frame.rfind(':');
    const std::size_t open = absolute != std::string::npos ? absolute : frame.rfind(" (");
    parsed.function = frame.substr(0, open);
    if (open == std::string::npos || colon == std::string::npos || colon < open ||
        !frame.ends_with(')'))
        return parsed;
    const char *const end = frame.data() + frame.size() - 1;
    const auto [rest, error] = std::from_chars(frame.data() + colon + 1, end, parsed.line);
    if (error == std::errc{} && rest == end && parsed.line > 0)
        parsed.file = frame.substr(open + 2, colon - open - 2);
    else
        parsed.line = 0;
    return parsed;
}

/// The finding's member history, which coherdma-emulate(7) describes: what was done to its cache
/// lines, `times` times in succession, and the state of these lines afterwards, in runs of adjacent
/// ones. Offsets are those in the memory region.
std::vector<line_event> parse_history(const json &finding) {
    std::vector<line_event> events;
    for (const json &object : finding.at("history")) {
        line_event event;
        event.name = object.at("event");
        event.description = object.at("description").is_null() ? "" : object.at("description");
        event.time_us = object.at("time_us");
        event.times = object.at("times");
        event.begin = object.at("offset");
        event.end = event.begin + object.at("length").get<std::int64_t>();
        for (std::string frame : object.at("stack"))
            event.stack.push_back(std::move(frame));
        for (const json &run : object.at("lines")) {
            const std::int64_t begin = run.at("offset");
            event.runs.push_back(
                {begin, begin + run.at("length").get<std::int64_t>(), run.at("state")});
        }
        events.push_back(std::move(event));
    }
    return events;
}

/// The events of the finding, the writes that follow from them, and where a sync is missing.
timeline make_timeline(const json &finding) {
    timeline result;
    result.events = parse_history(finding);
    if (result.events.empty())
        return result;
    const std::int64_t begin = finding.at("offset");
    replay lines(result, begin, std::max(begin, begin + finding.at("length").get<std::int64_t>()));
    for (std::size_t i = 0; i < result.events.size(); ++i)
        lines.add_event(i);
    result.missing_before = find_missing_before(result, finding.at("kind"));
    const auto event_row =
        std::find_if(result.rows.begin(), result.rows.end(), [&](const timeline_row &row) {
            return row.kind == row_kind::EVENT && row.event == result.missing_before;
        });
    if (event_row != result.rows.end()) {
        timeline_row missing;
        missing.kind = row_kind::MISSING_SYNC;
        missing.event = result.missing_before;
        result.rows.insert(event_row, missing);
    }
    return result;
}

/// The calls of process pid between which the sync is missing, as source lines.
missing_place find_missing_place(const timeline &line_timeline, long pid) {
    missing_place place;
    if (line_timeline.missing_before == NONE)
        return place;
    const std::vector<line_event> &events = line_timeline.events;
    const auto next = events.begin() + static_cast<std::ptrdiff_t>(line_timeline.missing_before);
    const auto is_own_call = [pid](const line_event &event) {
        return !event.stack.empty() && is_of_process(event, pid);
    };
    const auto before = std::find_if(next, events.end(), is_own_call);
    const auto after = std::find_if(std::make_reverse_iterator(next), events.rend(), is_own_call);
    if (after != events.rend() && before != events.end() &&
        find_common_function(after->stack, before->stack, place))
        return place;
    place = {};
    if (after != events.rend())
        place.after = innermost_frame(after->stack);
    if (before != events.end())
        place.before = innermost_frame(before->stack);
    return place;
}

} // namespace tools::emulate

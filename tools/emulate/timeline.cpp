// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "emulate/timeline.hpp"

#include <algorithm>
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

} // namespace

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

/// The events of the finding, the writes that follow from them, and before which event a sync is
/// missing.
timeline make_timeline(const json &finding) {
    timeline result;
    result.events = parse_history(finding);
    if (result.events.empty())
        return result;
    const std::int64_t begin = finding.at("offset");
    replay lines(result, begin, std::max(begin, begin + finding.at("length").get<std::int64_t>()));
    for (std::size_t i = 0; i < result.events.size(); ++i)
        lines.add_event(i);
    if (const json &insert = finding.at("insert"); !insert.is_null())
        if (const json &event = insert.at("before_event"); !event.is_null())
            result.missing_before = event.get<std::size_t>();
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

coherdma::reports::source_frame place_frame(const json &place) {
    coherdma::reports::source_frame frame;
    if (place.is_null() || place.at("file").is_null())
        return frame;
    frame.function = place.at("function");
    frame.file = place.at("file");
    frame.line = place.at("line");
    return frame;
}

} // namespace tools::emulate

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "format.hpp"

#include "reports/suppressions.hpp"
#include "reports/text.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace coherdma::check {
namespace {

using namespace reports;
using json = nlohmann::ordered_json;

constexpr const char *INDENT = "  ";

described_event describe(const call_event &event, source_files &sources, const tick_scale &scale) {
    described_event described;
    described.posted = event.posted;
    if (event.stack.time != 0)
        described.seconds = scale.seconds_at(event.stack.time);
    described.description = event.description;
    described.stack = to_strings(event.stack);
    constexpr std::size_t INNERMOST = 0;
    set_frame(described, INNERMOST, sources);
    return described;
}

/// "QP 17 was created at mailbox.c:100 in connect, called at mailbox.c:300 in main".
std::string history_text(const described_call &event) {
    if (event.location.empty())
        return wrapped(printable(event.description), INDENT);
    std::string text = event.description + " at " + event.location + " in " + event.frame.function;
    if (event.stack.size() > 1) {
        const source_frame caller = parse_frame(event.stack[1]);
        text += ", called at " + location_of(event.stack[1]) + " in " + caller.function;
    }
    return wrapped(printable(text), INDENT);
}

json posted_json(posted_state posted) {
    switch (posted) {
    case posted_state::NOTHING:
        break;
    case posted_state::OUTSTANDING:
        return "outstanding";
    case posted_state::COMPLETE:
        return "complete";
    }
    return nullptr;
}

json event_json(const described_event &event) {
    json object = {{"description", event.description},
                   {"function", nullptr},
                   {"file", nullptr},
                   {"line", nullptr},
                   {"time", event.seconds ? json(*event.seconds) : json(nullptr)},
                   {"posted", posted_json(event.posted)}};
    if (!event.stack.empty())
        object["function"] = event.frame.function;
    if (!event.frame.file.empty()) {
        object["file"] = event.frame.file;
        object["line"] = event.frame.line;
    }
    object["stack"] = event.stack;
    return object;
}

json place_json(const described_event &event) {
    json object = event_json(event);
    for (const char *const member : {"description", "stack", "time", "posted"})
        object.erase(member);
    object["source"] = json::array();
    for (const described_call::source_line &line : event.source)
        object["source"].push_back({{"line", line.number}, {"text", line.text}});
    return object;
}

/// All but the last, which is the wrong call, if the times are known.
void sort_by_time(std::vector<described_event> &events) {
    if (events.empty() || std::any_of(events.begin(), events.end() - 1,
                                      [](const auto &event) { return !event.seconds; }))
        return;
    std::stable_sort(events.begin(), events.end() - 1,
                     [](const auto &a, const auto &b) { return *a.seconds < *b.seconds; });
}

std::string dump(const json &object) {
    return object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

} // namespace

std::vector<std::string> described_finding::frames() const {
    std::vector<std::string> all;
    for (const described_event &event : events)
        all.insert(all.end(), event.stack.begin(), event.stack.end());
    return all;
}

described_finding describe(const finding &described, source_files &sources,
                           const event_clock &clock) {
    const tick_scale scale = clock.scale();
    described_finding result;
    result.kind = described.kind;
    result.device = described.device;
    result.title = described.title;
    for (const call_event &event : described.events)
        result.events.push_back(describe(event, sources, scale));
    sort_by_time(result.events);
    result.seconds = scale.seconds_at(described.time);
    result.suppression = std::string(describe(described.kind).name) + ":" +
                         (described.device.empty() ? "*" : pattern_of(described.device));
    if (!result.events.empty() && !result.events.back().stack.empty())
        result.suppression += ":" + pattern_of(function_of(result.events.back().stack.front()));
    return result;
}

std::size_t finding_counts::total() const noexcept {
    return total(finding_level::ERROR) + total(finding_level::WARNING);
}

std::size_t finding_counts::total(finding_level level) const noexcept {
    std::size_t sum = 0;
    for (const auto &[kind, count] : by_kind)
        if (describe(kind).level == level)
            sum += count;
    return sum;
}

std::string as_text(const described_finding &shown) {
    const kind_description &kind = describe(shown.kind);
    const std::string device = shown.device.empty() ? "" : " (" + shown.device + ")";
    std::string place = "coherdma check";
    if (!shown.events.empty() && !shown.events.back().location.empty())
        place = shown.events.back().location;
    std::string text = printable(place) + ": " + kind.name + ": " +
                       printable(shown.title + device) + "\n" + wrapped(kind.why, INDENT);
    if (!shown.events.empty())
        text += source_text(shown.events.back());
    for (const described_event &event : shown.events)
        text += history_text(event);
    return text + wrapped(std::string("fix: ") + kind.fix, INDENT) +
           "  suppress: " + printable(shown.suppression) + "\n";
}

std::string as_json(const described_finding &shown, const report_status &status) {
    const kind_description &kind = describe(shown.kind);
    json object = {{"kind", kind.name},      {"level", level_name(kind.level)},
                   {"device", shown.device}, {"title", shown.title},
                   {"why", kind.why},        {"fix", kind.fix},
                   {"place", nullptr},       {"events", json::array()}};
    if (!shown.events.empty())
        object["place"] = place_json(shown.events.back());
    for (const described_event &event : shown.events)
        object["events"].push_back(event_json(event));
    object["suppression"] = shown.suppression;
    object["place_number"] = status.place_number;
    object["repeated"] = status.num_earlier;
    object["suppressed"] = status.suppressed;
    object["pid"] = getpid();
    object["time"] = shown.seconds;
    return dump(object);
}

std::string as_text(const finding_counts &counts) {
    std::string text = "coherdma check: ";
    if (counts.total() == 0)
        text += "no findings\n";
    else
        text += count_of(counts.total(finding_level::ERROR), "error") + ", " +
                count_of(counts.total(finding_level::WARNING), "warning") + ", at " +
                count_of(counts.num_places, "place") + "\n";
    for (const auto &[kind, count] : counts.by_kind)
        text += wrapped(std::to_string(count) + " " + describe(kind).name + ": " +
                            describe(kind).summary,
                        INDENT);
    if (counts.num_suppressed != 0)
        text += INDENT + std::to_string(counts.num_suppressed) + " suppressed\n";
    return text;
}

std::string as_json(const finding_counts &counts) {
    json by_kind = json::object();
    for (const auto &[kind, count] : counts.by_kind)
        by_kind[describe(kind).name] = count;
    return dump({{"summary",
                  {{"errors", counts.total(finding_level::ERROR)},
                   {"warnings", counts.total(finding_level::WARNING)},
                   {"places", counts.num_places},
                   {"suppressed", counts.num_suppressed},
                   {"repeated", counts.num_repeated},
                   {"by_kind", by_kind},
                   {"by_place", counts.by_place},
                   {"device", counts.has_device}}},
                 {"pid", getpid()}});
}

} // namespace coherdma::check

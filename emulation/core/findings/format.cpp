// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "format.hpp"

#include "event_history.hpp"
#include "reports/text.hpp"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace coherdma::emulation {

using namespace reports;

namespace {

using json = nlohmann::ordered_json;
using byte_vector = std::vector<unsigned char>;

constexpr std::size_t MAX_FRAMES_IN_TEXT = 4; // JSON has all frames

const char *describe(finding_kind kind) noexcept {
    switch (kind) {
    case finding_kind::UNSYNCED_READ:
        return "a peer reads lines that this program has changed and not synced";
    case finding_kind::UNSYNCED_WRITE:
        return "a peer writes lines that this program has changed and not synced";
    case finding_kind::CONFLICT:
        return "both the program and the device changed these lines since they were last\n"
               "  equal: the data of one of them is lost";
    case finding_kind::STALE:
        return "the device wrote these lines, and the program never synced them: it sees the\n"
               "  old data";
    case finding_kind::UNSYNCED_SOURCE:
        return "a request of this program reads lines that it has changed and not synced";
    case finding_kind::UNSYNCED_SINK:
        return "a request of this program writes lines that it has changed and not synced";
    case finding_kind::CONFLICT_SINK:
        return "both the program and its request changed these lines since they were last\n"
               "  equal: the data of one of them is lost";
    case finding_kind::STALE_SINK:
        return "the device wrote these lines for a request of this program, which did not sync\n"
               "  them after the completion: it sees the old data";
    case finding_kind::SHARED_LINE:
        return "the program changed bytes in lines in which the device wrote others: the data\n"
               "  of one of them is lost";
    case finding_kind::DISCARDED:
        return "the program's changes to these lines are lost: the memory was deregistered\n"
               "  before they were synced";
    case finding_kind::BESIDE:
        return "data arrived in lines in which the program changed other bytes: on some\n"
               "  machines one of the two is lost";
    case finding_kind::REDUNDANT:
        return "a sync of lines that have not changed since the last one";
    }
    return "?";
}

/// What makes a finding only possible, in a sentence.
const char *describe(finding_doubt doubt) noexcept {
    switch (doubt) {
    case finding_doubt::NONE:
        return "";
    case finding_doubt::SAME_BYTES:
        return "the bytes were the same this time";
    case finding_doubt::MAYBE_UNREAD:
        return "nothing shows that the program read them";
    }
    return "?";
}

std::string hex_bytes(const byte_vector &bytes, const char *separator) {
    std::string text;
    for (const unsigned char byte : bytes) {
        std::array<char, 4> digits;
        std::snprintf(digits.data(), digits.size(), "%02x", byte);
        text += (text.empty() ? "" : separator) + std::string(digits.data());
    }
    return text;
}

/// Negative if the line begins before its MR.
std::int64_t offset_in_mr(std::uintptr_t addr, const finding &finding) noexcept {
    return static_cast<std::int64_t>(addr - finding.mr.range.begin);
}

/// "  device   61 62 63  |abc|"
std::string bytes_row(const char *name, const byte_vector &bytes) {
    std::array<char, 96> row;
    const std::string shown(bytes.begin(), bytes.end());
    std::string text;
    for (const char c : shown)
        text += c >= ' ' && c <= '~' ? c : '.';
    std::snprintf(row.data(), row.size(), "  %-8s %s  |%s|\n", name, hex_bytes(bytes, " ").c_str(),
                  text.c_str());
    return bytes.empty() ? "" : row.data();
}

std::string access_text(const char *name, const std::string &text,
                        const std::vector<std::string> &frames) {
    std::string result = std::string("  ") + name + ": " + printable(text) + "\n";
    for (std::size_t i = 0; i < frames.size() && i < MAX_FRAMES_IN_TEXT; ++i)
        result += "    at " + printable(frames[i]) + "\n";
    return result;
}

/// Which call to insert, and where. "" if no call is missing.
std::string advice_text(const advice &given) {
    if (given.call.empty())
        return "";
    std::string text = printable(given.first_line()) + "\n" +
                       wrapped(printable(given.interval), "  ") + source_text(given.after);
    if (given.before.frame.file != given.after.frame.file ||
        given.before.frame.line != given.after.frame.line)
        text += (given.after.source.empty() || given.before.source.empty() ? "" : "   ...\n") +
                source_text(given.before);
    return text;
}

json frame_json(const source_frame &frame) {
    if (frame.file.empty())
        return {{"function", frame.function}, {"file", nullptr}, {"line", nullptr}};
    return {{"function", frame.function}, {"file", frame.file}, {"line", frame.line}};
}

json place_json(const described_call &place) {
    if (place.description.empty())
        return nullptr;
    json object = {{"description", place.description}};
    object.update(frame_json(place.frame));
    object["stack"] = place.stack;
    object["source"] = json::array();
    for (const described_call::source_line &line : place.source)
        object["source"].push_back({{"line", line.number}, {"text", line.text}});
    return object;
}

/// What to insert: null if no call is missing.
json insert_json(const finding &finding, const advice &given) {
    if (given.call.empty())
        return nullptr;
    json object = {{"text", given.first_line() + " " + given.interval},
                   {"call", given.call},
                   {"place", given.path.empty() ? json(nullptr) : json(given.path)}};
    object.update(frame_json(given.frame));
    object["before_event"] =
        finding.missing_before < finding.history.size() ? json(finding.missing_before) : nullptr;
    return object;
}

json access_json(const mem_access &access) {
    if (access.text.empty())
        return nullptr;
    return {{"description", access.text}, {"stack", frames_of(access)}};
}

/// An event of the history; `lines` are those of the finding, with the state that the event found.
json event_json(const history_event &event, const finding &finding) {
    json lines = json::array();
    for (const history_event::line_run &run : event.runs)
        if (const addr_range part = intersection(run.lines, finding.range); !part.empty())
            lines.push_back({{"offset", offset_in_mr(part.begin, finding)},
                             {"length", part.size()},
                             {"state", state_name(run.state)}});
    return {{"event", event_name(event.kind)},
            {"time_us", event.time_us},
            {"times", event.count},
            {"offset", offset_in_mr(event.bytes.begin, finding)},
            {"length", event.bytes.size()},
            {"description", event.access.text.empty() ? json(nullptr) : json(event.access.text)},
            {"stack", frames_of(event.access)},
            {"lines", lines}};
}

json history_json(const finding &finding) {
    json events = json::array();
    for (const history_event *const event : finding.history)
        events.push_back(event_json(*event, finding));
    return events;
}

json bytes_json(const byte_vector &bytes) {
    return bytes.empty() ? json(nullptr) : json(hex_bytes(bytes, ""));
}

/// One line, also if names contain invalid UTF-8.
std::string dump_line(const json &object) {
    return object.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

} // namespace

std::size_t finding_counts::total() const noexcept {
    std::size_t sum = 0;
    for (const auto &[kind, count] : by_kind)
        sum += count;
    return sum;
}

std::vector<std::string> frames_of(const mem_access &access) {
    return access.peer_stack.empty() ? to_strings(access.stack) : access.peer_stack;
}

std::vector<std::string> all_frames_of(const finding &finding) {
    std::vector<std::string> frames = frames_of(finding.request);
    for (const auto &more : {frames_of(finding.last_sync), to_strings(finding.mr.reg_stack)})
        frames.insert(frames.end(), more.begin(), more.end());
    return frames;
}

/// The lines on stderr for a finding.
std::string as_text(const finding &finding, const advice &given) {
    std::string title = kind_name(finding.kind);
    for (char &c : title)
        c = c == '-' ? ' ' : static_cast<char>(c - 'a' + 'A');
    const bool is_possible = finding.doubt != finding_doubt::NONE;
    std::string text =
        advice_text(given) + "coherdma: " + (is_possible ? "POSSIBLE " : "") + title + ": " +
        printable(finding.mr.device_name) + " region " + std::to_string(finding.mr.number) +
        ", bytes " + std::to_string(offset_in_mr(finding.range.begin, finding)) + ".." +
        std::to_string(offset_in_mr(finding.range.end, finding) - 1) + " of " +
        std::to_string(finding.mr.range.size()) + "\n  " + describe(finding.kind) + "\n";
    if (is_possible)
        text += std::string("  possible: ") + describe(finding.doubt) + "\n";
    if (!given.region_name.empty())
        text += wrapped("region " + std::to_string(finding.mr.number) + ": " +
                            printable(given.region_name),
                        "  ");
    if (*missing_sync(finding.kind) != '\0')
        text += std::string("  missing: ") + missing_sync(finding.kind) + "\n";
    if (finding.kind != finding_kind::REDUNDANT) {
        text += "  from byte " + std::to_string(offset_in_mr(finding.first_diff, finding)) + " (" +
                hex_number(finding.first_diff) + "):\n" +
                bytes_row("program", finding.program_bytes) +
                bytes_row("device", finding.device_bytes) +
                bytes_row("equal", finding.last_equal_bytes);
    }
    if (!finding.request.text.empty())
        text += access_text("request", finding.request.text, frames_of(finding.request));
    text +=
        access_text("last sync", finding.last_sync.text.empty() ? "none" : finding.last_sync.text,
                    frames_of(finding.last_sync));
    if (const auto frames = to_strings(finding.mr.reg_stack); !frames.empty())
        text += access_text("registered", hex_number(finding.mr.range.begin), frames);
    return text + "  suppress: " + printable(given.suppression) + "\n";
}

/// The line in the log for a finding.
std::string as_json(const finding &finding, const advice &given, const report_status &status) {
    json object = {
        {"coherdma", "finding"},
        {"kind", kind_name(finding.kind)},
        {"certainty", finding.doubt == finding_doubt::NONE ? "certain" : "possible"},
        {"doubt",
         finding.doubt == finding_doubt::NONE ? json(nullptr) : json(doubt_name(finding.doubt))},
        {"missing", missing_sync(finding.kind)},
        {"insert", insert_json(finding, given)},
        {"after", place_json(given.after)},
        {"before", place_json(given.before)},
        {"device", finding.mr.device_name},
        {"region", finding.mr.number},
        {"region_name", given.region_name.empty() ? json(nullptr) : json(given.region_name)},
        {"region_begin", hex_number(finding.mr.range.begin)},
        {"region_length", finding.mr.range.size()},
        {"rkey", finding.mr.rkey},
        {"begin", hex_number(finding.range.begin)},
        {"offset", offset_in_mr(finding.range.begin, finding)},
        {"length", finding.range.size()},
        {"first", hex_number(finding.first_diff)},
        {"first_offset", offset_in_mr(finding.first_diff, finding)},
        {"program", bytes_json(finding.program_bytes)},
        {"device_bytes", bytes_json(finding.device_bytes)},
        {"last_equal", bytes_json(finding.last_equal_bytes)},
        {"request", access_json(finding.request)},
        {"last_sync", access_json(finding.last_sync)},
        {"registered", to_strings(finding.mr.reg_stack)},
        {"pid", getpid()},
        {"suppressed", status.suppressed},
        {"suppression", given.suppression},
        {"repeated", status.num_earlier},
        {"line_size", finding.line_size},
        {"history", history_json(finding)}};
    if (*missing_sync(finding.kind) == '\0')
        object["missing"] = nullptr;
    return dump_line(object);
}

/// The summary: a row for each kind of finding. Findings of one site were caused at the same place
/// in the program.
std::string as_text(const finding_counts &counts) {
    std::string text;
    const auto add_row = [&](std::size_t count, const char *name, const char *note) {
        std::array<char, 128> line;
        std::snprintf(line.data(), line.size(), "  %8zu  %-14s  %s", count, name, note);
        text += line.data();
        text.erase(text.find_last_not_of(' ') + 1);
        text += "\n";
    };
    text = counts.total() == 0 ? "coherdma: emulation: no findings\n"
                               : "coherdma: emulation: " + std::to_string(counts.total()) +
                                     (counts.total() == 1 ? " finding\n" : " findings\n");
    for (const auto &[kind, count] : counts.by_kind)
        add_row(count, kind_name(kind), missing_sync(kind));
    if (counts.num_possible != 0)
        add_row(counts.num_possible, "possible", "of those above; the others are certain");
    if (counts.total() != 0)
        add_row(counts.num_places, counts.num_places == 1 ? "place" : "places", "in the program");
    if (counts.num_suppressed != 0)
        add_row(counts.num_suppressed, "suppressed", "not counted above");
    if (counts.num_repeated != 0)
        add_row(counts.num_repeated, "repeated", "not printed: more than the limit of one site");
    return text;
}

/// The last line in the log.
std::string as_json(const finding_counts &counts) {
    json kinds = json::object();
    for (const auto &[kind, count] : counts.by_kind)
        kinds[kind_name(kind)] = count;
    return dump_line({{"coherdma", "summary"},
                      {"findings", counts.total()},
                      {"kinds", kinds},
                      {"certain", counts.total() - counts.num_possible},
                      {"possible", counts.num_possible},
                      {"places", counts.num_places},
                      {"suppressed", counts.num_suppressed},
                      {"repeated", counts.num_repeated},
                      {"pid", getpid()}});
}

} // namespace coherdma::emulation

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "check/history.hpp"

#include "check/log.hpp"

#include <algorithm>
#include <fmt/core.h>
#include <optional>
#include <vector>

namespace tools::check {

// The dots of the program are at 0.6rem, the bars of requests from 2.1rem on, 1.1rem apart.
const char *const HISTORY_STYLE = R"(
.history { list-style: none; padding: .9rem 1rem .4rem; margin: .4rem 0 1rem; }
.history li { position: relative; padding: 0 0 .9rem calc(1.8rem + var(--bars, 0) * 1.1rem); }
.history li::before { content: ""; position: absolute; left: .3rem; top: .45rem; width: .6rem;
  height: .6rem; border-radius: 50%; border: 2px solid var(--text); background: var(--card);
  z-index: 1; }
.history li:not(:last-child)::after { content: ""; position: absolute; left: calc(.6rem - 1px);
  top: .75rem; bottom: -.75rem; border-left: 2px solid var(--line); }
.history .wrong::before { border-color: var(--bad); background: var(--bad); }
.history .wrong > b { color: var(--bad); }
.history .unknown::before { background: var(--card); }
.history .open::before { content: none; } .history .open { padding-bottom: .3rem; }
.history i { position: absolute; left: calc(1.9rem + var(--bar) * 1.1rem); top: 0; bottom: 0;
  width: .6rem; background: var(--color2); }
.history .begin { top: .45rem; border-radius: .3rem .3rem 0 0; }
.history .end { bottom: auto; height: 1.05rem; border-radius: 0 0 .3rem .3rem; }
.history .begin::before, .history .end::before { content: ""; position: absolute; right: .5rem;
  width: calc(1rem + var(--bar) * 1.1rem); border-top: 2px solid var(--color2); }
.history .begin::before { top: .24rem; } .history .end::before { bottom: .24rem; }
.history .fade { background: linear-gradient(var(--color2), transparent); }
.history code { display: block; font-size: .86rem; overflow-wrap: anywhere; }
.history details { margin: 0; } .history summary { font-size: .88rem; margin: .1rem 0; }
.history b { overflow-wrap: anywhere; }
.time { color: var(--soft); font-size: .88rem; font-variant-numeric: tabular-nums; }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.4rem; margin: 0; font-size: .88rem;
  color: var(--soft); }
.legend span::before { content: ""; display: inline-block; vertical-align: -.08rem;
  margin-right: .45rem; width: .7rem; height: .7rem; }
.legend .program::before { border: 2px solid var(--text); border-radius: 50%; }
.legend .device::before { background: var(--color2); border-radius: .15rem; }
.legend .mistake::before { background: var(--bad); border-radius: 50%; }
)";

namespace {

using json = nlohmann::ordered_json;
using coherdma::reports::source_files;

/// The calls of a stack with their source lines: the program's first one, and its callers folded.
std::string format_stack(const json &event, source_files &files) {
    const json &stack = event.at("stack");
    if (stack.empty())
        return event.at("function").is_null() && event.at("file").is_null()
                   ? ""
                   : run::format_frame(frame_of(event), files);
    std::string html = run::format_frame(stack.front(), files);
    if (stack.size() == 1)
        return html;
    html += "<details><summary>called by</summary>";
    for (auto frame = stack.begin() + 1; frame != stack.end(); ++frame)
        html += run::format_frame(*frame, files);
    return html + "</details>";
}

/// nullopt: not known.
std::optional<double> time_of(const json &event) {
    const auto time = event.find("time");
    return time == event.end() || time->is_null() ? std::nullopt
                                                  : std::optional(time->get<double>());
}

/// "outstanding", "complete"; "": the event has posted no request.
std::string posted_of(const json &event) {
    const auto posted = event.find("posted");
    return posted == event.end() || posted->is_null() ? "" : posted->get<std::string>();
}

std::string format_duration(double seconds) {
    constexpr double MILLI = 1e-3, MICRO = 1e-6;
    if (seconds < MILLI)
        return fmt::format("{:.1f} µs", seconds / MICRO);
    return seconds < 1 ? fmt::format("{:.1f} ms", seconds / MILLI)
                       : fmt::format("{:.2f} s", seconds);
}

/// A line of the history.
struct history_line {
    std::string classes;     ///< of the element
    std::string description; ///< "": none
    std::optional<double> time;
    std::string note;    ///< instead of the time
    std::string details; ///< HTML
};

/// The requests that the device has, from one line to the next.
class request_bars {
  public:
    /// is_end: of those that are complete. fades: it is the last line.
    std::string format(const std::string &posted, bool is_end, bool fades) {
        std::string html;
        for (std::size_t i = 0; i < states_.size(); ++i)
            html += format_bar(i, is_end && states_[i] == "complete" ? "end" : fades ? "fade" : "");
        if (!posted.empty()) {
            html += format_bar(states_.size(), "begin");
            states_.push_back(posted);
        }
        return html;
    }

  private:
    static std::string format_bar(std::size_t number, const std::string &name) {
        return fmt::format("<i{} style=\"--bar:{}\"></i>", name.empty() ? "" : " class=" + name,
                           number);
    }
    std::vector<std::string> states_; ///< by their bars
};

std::string format_time(const history_line &line, std::optional<double> &previous) {
    if (!line.note.empty())
        return " <span class=time>" + escape_html(line.note) + "</span>";
    if (!line.time)
        return "";
    // The counters of two CPUs may differ by more than has passed.
    const std::string text = previous
                                 ? format_duration(std::max(*line.time - *previous, 0.0)) + " later"
                                 : fmt::format("at {:.6f} s", *line.time);
    previous = line.time;
    return " <span class=time>" + text + "</span>";
}

bool has_posted(const json &events, const std::string &state) {
    return std::any_of(events.begin(), events.end(),
                       [&](const json &event) { return posted_of(event) == state; });
}

/// What is behind the last event: a change of a source, if its time is not known; the completion;
/// or that there is none.
std::vector<history_line> lines_after(const json &finding) {
    const json &events = finding.at("events");
    std::vector<history_line> lines;
    if (has_posted(events, "complete")) {
        if (!posted_of(events.back()).empty())
            lines.push_back({.classes = "wrong unknown",
                             .description = "the program wrote to its memory",
                             .time = {},
                             .note = "at a time that is not known",
                             .details = ""});
        lines.push_back({.classes = "polled",
                         .description = "the program has polled the completion",
                         .time = time_of(finding),
                         .note = "",
                         .details = ""});
    } else if (has_posted(events, "outstanding"))
        lines.push_back({.classes = "open",
                         .description = "",
                         .time = {},
                         .note = "no completion has been polled",
                         .details = ""});
    return lines;
}

std::string format_legend(bool has_requests) {
    return has_requests ? "<p class=legend><span class=program>the program</span>"
                          "<span class=mistake>its mistake</span>"
                          "<span class=device>the device has the request</span></p>\n"
                        : "";
}

} // namespace

std::string format_history(const json &finding, source_files &files) {
    const json &events = finding.at("events");
    if (events.empty())
        return "";
    const std::vector<history_line> after = lines_after(finding);
    const bool is_last_wrong = after.empty() || after.front().classes != "wrong unknown";
    const auto num_bars = std::count_if(
        events.begin(), events.end(), [](const json &event) { return !posted_of(event).empty(); });
    std::string html =
        "<h3>What happened</h3>\n" + format_legend(num_bars != 0) +
        fmt::format("<ol class=\"history card\"{}>\n",
                    num_bars != 0 ? fmt::format(" style=\"--bars:{}\"", num_bars) : "");
    request_bars bars;
    std::optional<double> previous;
    const auto add = [&](const history_line &line, const std::string &posted, bool is_last) {
        html += "<li" + (line.classes.empty() ? "" : " class=\"" + line.classes + "\"") + ">" +
                bars.format(posted, line.classes == "polled", is_last);
        if (!line.description.empty())
            html += "<b>" + escape_html(line.description) + "</b>";
        html += format_time(line, previous) + line.details + "</li>\n";
    };
    std::size_t number = 0;
    for (const json &event : events)
        add({.classes = ++number == events.size() && is_last_wrong ? "wrong" : "",
             .description = event.at("description").get<std::string>(),
             .time = time_of(event),
             .note = "",
             .details = format_stack(event, files)},
            posted_of(event), false);
    for (const history_line &line : after)
        add(line, "", &line == &after.back());
    return html + "</ol>\n";
}

} // namespace tools::check

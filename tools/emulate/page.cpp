// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The report as a page of HTML.

#include "emulate/report.hpp"
#include "emulate/timeline.hpp"
#include "html.hpp"
#include "reports/source.hpp"
#include "run/source_html.hpp"

#include <algorithm>
#include <fmt/core.h>

namespace tools::emulate {
namespace {

using namespace coherdma::reports;
using json = nlohmann::ordered_json;

constexpr std::size_t NONE = timeline_row::NONE;

constexpr const char *PAGE_STYLE = R"(
:root { --color4: #7c3aed; } @media (prefers-color-scheme: dark) { :root { --color4: #c4a3ff; } }
h2 { border-top: 1px solid var(--line); padding-top: 1.6rem; overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; }
p, .legend { overflow-wrap: anywhere; } dd, dt { padding: .1rem 0; } dd code { display: block; }
.insert { font-size: 1.05rem; font-weight: 650; } .scroll + p { margin-top: 1rem; }
.legend { display: flex; flex-wrap: wrap; gap: .4rem 1.2rem; font-size: .9rem; }
.legend .cell { min-width: 5rem; margin-right: .4rem; display: inline-block; }
.extent { height: .8rem; border: 1px solid var(--line); background: var(--card); max-width: 46rem;
  margin: .5rem 0 1rem; position: relative; border-radius: 3px; overflow: hidden; }
.extent i { position: absolute; top: 0; bottom: 0; min-width: 3px; background: var(--bad); }
.timeline { list-style: none; padding: 0; margin: .6rem 0 1rem; }
.timeline li { display: grid; gap: .2rem 1.2rem; align-items: center; padding: .45rem .9rem;
  grid-template-columns: minmax(0, 1fr) minmax(12rem, 32%); border-top: 1px solid var(--line); }
.timeline li:first-child { border-top: 0; }
.timeline .inferred { font-style: italic; color: var(--soft); }
.timeline .missing { display: block; border: 2px dashed var(--bad); border-radius: 6px;
  color: var(--bad); font-weight: 650; margin: .2rem; }
.timeline .found { border-left: 4px solid var(--bad); }
.timeline li > div:first-child { padding-left: 1.8rem; position: relative; }
.number { position: absolute; left: 0; color: var(--soft); }
.actor { font-weight: 650; } .detail { color: var(--soft); font-size: .88rem; }
.call { display: block; font-size: .86rem; overflow-wrap: anywhere; }
.cells { display: flex; gap: 3px; }
.cell { flex: 1; min-width: 0; text-align: center; font: 600 .78rem/1.5 system-ui, sans-serif;
  border: 1px solid var(--line); border-radius: 3px; color: var(--soft); overflow: hidden; }
.dirty { border-color: var(--color1); color: var(--color1); }
.stale { border-color: var(--color2); color: var(--color2); }
.conflict { border-color: var(--color4); color: var(--color4); }
.part.clean { border-color: var(--color3); color: var(--color3); }
.part.dirty { background: var(--color1); color: var(--back); }
.part.stale { background: var(--color2); color: var(--back); }
.part.conflict { background: var(--color4); color: var(--back); }
@media (max-width: 640px) { body { padding: 1.4rem .8rem 2rem; }
  .timeline li { grid-template-columns: minmax(0, 1fr); } dl { grid-template-columns: 1fr; }
  dd { margin: 0 0 .5rem; } }
)";

/// Which actor does what in an event of a line's history.
constexpr struct {
    const char *event, *actor, *text;
} EVENTS[] = {
    {"reg_mr", "program", "registers the memory"},
    {"sync_writeback", "program", "sync_writeback"},
    {"sync_invalidate", "program", "sync_invalidate"},
    {"sync_for_device", "program", "sync_for_device"},
    {"sync_for_cpu", "program", "sync_for_cpu"},
    {"peer_rdma_read", "peer", "posts an RDMA Read of these lines"},
    {"peer_rdma_write", "peer", "posts an RDMA Write of these lines"},
    {"peer_atomic", "peer", "posts an atomic operation on these lines"},
    {"data_received", "program",
     "polls a completion with data: from here on it may know of the request"},
    {"post_source", "program", "posts a work request that reads this local memory"},
    {"post_sink", "program", "posts a work request that writes this local memory"},
    {"request_source", "program", "posts a work request that reads this local memory"},
    {"request_sink", "program", "posts a work request that writes this local memory"},
    {"request_complete", "program",
     "polls the completion of a work request that wrote this memory"},
    {"complete_sink", "program", "polls the completion of a work request that wrote this memory"},
    {"evict_writeback", "mode evict", "copies the line to the device"},
    {"evict_fetch", "mode evict", "copies the line to the program"},
    {"dereg_mr", "program", "deregisters the memory"},
    {"exit", "program", "ends"},
};

/// "RDMA Write of 64 bytes" and the rest of "RDMA Write of 64 bytes, wr_id 0x7 of QP 17, ..."
std::pair<std::string, std::string> split_description(const std::string &text) {
    const std::size_t comma = text.find(", ");
    return {text.substr(0, comma), comma == std::string::npos ? "" : text.substr(comma + 2)};
}

/// The innermost frame of the stack, with its source line if that is readable.
std::string format_call(const std::vector<std::string> &stack, source_files &files) {
    if (stack.empty())
        return "";
    const source_frame frame = parse_frame(stack.front());
    if (frame.file.empty())
        return "<code class=call>" + escape_html(stack.front()) + "</code>";
    return fmt::format("<code class=call title=\"{}\">{} {}:{} <span class=soft>{}</span></code>",
                       escape_html(frame.file), escape_html(frame.function),
                       escape_html(base_name(frame.file)), frame.line,
                       escape_html(trim(files.line(frame.file, frame.line))));
}

/// The cache lines in a row of the timeline as at most 16 cells of equally many lines, each with
/// the worst state of its lines. Cells with a line that the row's event concerns are filled.
std::string format_cells(const std::vector<line_segment> &segments, std::size_t num_lines) {
    constexpr std::size_t MAX_CELLS = 16, MAX_NAMED_CELLS = 3;
    if (segments.empty() || segments.front().begin >= segments.back().end)
        return "";
    const std::int64_t begin = segments.front().begin, length = segments.back().end - begin;
    const std::size_t num_cells = std::clamp<std::size_t>(num_lines, 1, MAX_CELLS);
    std::string html = "<div class=cells>";
    for (std::size_t i = 0; i < num_cells; ++i) {
        const auto cells = static_cast<std::int64_t>(num_cells),
                   cell = static_cast<std::int64_t>(i);
        const std::int64_t cell_begin =
            begin + length / cells * cell + length % cells * cell / cells;
        const std::int64_t cell_end =
            begin + length / cells * (cell + 1) + length % cells * (cell + 1) / cells;
        std::string state;
        bool is_filled = false;
        for (const line_segment &segment : segments) {
            if (segment.begin >= cell_end || segment.end <= cell_begin)
                continue;
            is_filled = is_filled || segment.is_part;
            for (const char *const worse : {"clean", "dirty", "stale", "conflict"})
                if (segment.state == worse &&
                    (state.empty() || state == "clean" || segment.state == "conflict"))
                    state = segment.state;
        }
        const std::string name = state.empty() ? "?" : state;
        html += fmt::format("<span class=\"cell {}{}\" title=\"bytes {}..{}: {}\">{}</span>",
                            escape_html(state), is_filled ? " part" : "", cell_begin, cell_end - 1,
                            escape_html(name),
                            escape_html(num_cells <= MAX_NAMED_CELLS ? name : name.substr(0, 1)));
    }
    return html + "</div>";
}

/// A finding with what its HTML needs.
struct shown_finding {
    const json &finding;
    const timeline &line_timeline;
    std::string missing; ///< "": no sync is missing
    std::size_t num_lines;
    source_files &files;
};

/// A row of the timeline with a logged event; the last event is the one that found the lines wrong.
std::string format_event(const shown_finding &shown, const timeline_row &row) {
    const std::vector<line_event> &events = shown.line_timeline.events;
    const line_event &event = events[row.event];
    std::string actor = "?", text = event.name, detail;
    for (const auto &known : EVENTS)
        if (event.name == known.event)
            actor = known.actor, text = known.text;
    if (!event.description.empty()) {
        std::tie(text, detail) = split_description(event.description);
        text += " is posted";
    }
    detail = fmt::format("bytes {}..{}{}{}, {:+.3f} ms{}", event.begin, event.end - 1,
                         detail.empty() ? "" : ", ", detail,
                         static_cast<double>(event.time_us - events.front().time_us) / 1000,
                         event.times > 1 ? fmt::format(", {} times", event.times) : "");
    const bool is_last = row.event + 1 == events.size();
    return fmt::format("<li{}><div><span class=number>{}</span><span class=actor>{}:</span> {} "
                       "<span class=detail>{}</span>{}{}</div>{}</li>\n",
                       is_last ? " class=found" : "", row.event + 1, escape_html(actor),
                       escape_html(text), escape_html(detail), is_last ? " <b>found here</b>" : "",
                       format_call(event.stack, shown.files),
                       format_cells(row.segments, shown.num_lines));
}

/// A row of the timeline that is not logged: the state in which event row.event found the lines
/// shows that the CPU or the device had written them, since event row.since, as the request of
/// event row.cause. The numbers are those of events, from 1.
std::string format_inferred(const shown_finding &shown, const timeline_row &row) {
    std::string text =
        row.kind == row_kind::CPU_WROTE ? "the CPU wrote lines" : "the device wrote lines";
    if (row.since != NONE)
        text += fmt::format(" between {} and {}", row.since + 1, row.event + 1);
    if (row.kind == row_kind::DEVICE_WROTE)
        text += row.cause != NONE ? fmt::format(" (the request of {})", row.cause + 1)
                                  : " (by a request that is not known)";
    return fmt::format("<li class=inferred><div>inferred: {}</div>{}</li>\n", text,
                       format_cells(row.segments, shown.num_lines));
}

/// The history of the finding's cache lines: what was done to them, and where the sync is missing.
std::string format_timeline(const shown_finding &shown) {
    if (shown.line_timeline.events.empty())
        return "<p class=soft>No event on these lines is known.</p>\n";
    std::string html;
    if (shown.line_timeline.events.front().name != "reg_mr")
        html += "<p class=soft>Earlier events are not known any more.</p>\n";
    html += "<ol class=\"timeline card\">\n";
    for (const timeline_row &row : shown.line_timeline.rows) {
        if (row.kind == row_kind::EVENT)
            html += format_event(shown, row);
        else if (row.kind == row_kind::MISSING_SYNC)
            html += "<li class=missing>missing here: " + escape_html(shown.missing) + "</li>\n";
        else
            html += format_inferred(shown, row);
    }
    return html + "</ol>\n";
}

/// The source around the lines of two frames: in one part if they are close. A frame with line 0 is
/// not known.
std::string format_excerpt(source_files &files, const source_frame &first,
                           const source_frame &second) {
    constexpr int MAX_DISTANCE = 24, CONTEXT = 2;
    const auto [first_line, last_line] = std::minmax(first.line, second.line);
    const bool is_one_part = first.file == second.file && last_line - first_line <= MAX_DISTANCE;
    std::string html;
    const auto add_lines = [&](const std::string &file, int begin, int end) {
        std::vector<std::pair<int, std::string>> lines;
        std::vector<int> hits;
        for (int line = std::max(begin, 1); line <= end; ++line)
            if (files.has_line(file, line))
                lines.emplace_back(line, files.line(file, line));
        for (const source_frame *frame : {&first, &second})
            if (frame->file == file)
                hits.push_back(frame->line);
        if (!lines.empty())
            html += "<h3>" + escape_html(file) + "</h3>\n" + run::format_source_lines(lines, hits);
    };
    if (is_one_part) {
        add_lines(first.file, first_line - CONTEXT, last_line + CONTEXT);
        return html;
    }
    if (first.line != 0)
        add_lines(first.file, first.line - CONTEXT, first.line + CONTEXT);
    if (second.line != 0)
        add_lines(second.file, second.line - CONTEXT, second.line + CONTEXT);
    return html;
}

/// Which call must be added, and where, with the source there.
std::string format_insert(const json &finding, source_files &files) {
    const json &insert = finding.at("insert");
    if (insert.is_null())
        return "";
    const std::string text = insert.at("text");
    const std::size_t end = std::min(text.find("; "), text.size());
    return fmt::format("<p class=insert><code>{}</code>{}</p>\n",
                       escape_html(text.substr(0, std::min(end + 1, text.size()))),
                       escape_html(text.substr(std::min(end + 1, text.size())))) +
           format_excerpt(files, place_frame(finding.at("after")),
                          place_frame(finding.at("before")));
}

/// An entry of an HTML definition list: a text, and the frames of a stack with their source lines.
std::string format_term(const char *name, const std::string &text, const json &stack,
                        source_files &files) {
    std::string html = std::string("<dt>") + name + "</dt><dd>" + escape_html(text);
    for (const std::string frame : stack)
        html += run::format_frame(frame, files);
    return html + "</dd>\n";
}

/// Where the program made the finding's request, the last sync and the registration.
std::string format_stacks(const json &finding, source_files &files) {
    std::string html = "<dl>\n";
    if (const json &request = finding.at("request"); !request.is_null())
        html += format_term("request", request.at("description"), request.at("stack"), files);
    if (const json &sync = finding.at("last_sync"); sync.is_null())
        html += format_term("last sync", "none is known", json::array(), files);
    else
        html += format_term("last sync", sync.at("description"), sync.at("stack"), files);
    return html + format_term("registered", "", finding.at("registered"), files) + "</dl>\n";
}

/// A bar for the memory region, in which bytes begin to end are marked.
std::string format_extent_bar(std::int64_t begin, std::int64_t end, std::uint64_t region_length) {
    const double scale = 100.0 / static_cast<double>(std::max<std::uint64_t>(region_length, 1));
    const double left = std::clamp(static_cast<double>(begin) * scale, 0.0, 100.0);
    const double right = std::clamp(static_cast<double>(end) * scale, left, 100.0);
    return fmt::format("<div class=extent title=\"the lines in their memory region\">"
                       "<i style=\"left:{:.2f}%;width:{:.2f}%\"></i></div>\n",
                       left, right - left);
}

/// missing: the sync that is missing, or "".
std::string format_finding(const logged_finding &logged, const std::string &missing,
                           source_files &files) {
    const json &finding = *logged.json;
    const timeline line_timeline = make_timeline(finding);
    const std::int64_t begin = finding.at("offset"), length = finding.at("length");
    const auto line_size = std::max<std::int64_t>(finding.at("line_size").get<std::int64_t>(), 1);
    const shown_finding shown = {
        finding, line_timeline, missing,
        static_cast<std::size_t>(std::max<std::int64_t>(length, 0) / line_size), files};
    return fmt::format(
               "<p class=soft>Bytes {}..{} of {}, in lines of {} bytes. Mode {}, process {}.</p>\n",
               begin, begin + length - 1, finding.at("region_length").get<std::uint64_t>(),
               line_size, escape_html(logged.mode), finding.at("pid").get<long>()) +
           format_extent_bar(begin, begin + length, finding.at("region_length")) +
           "<h3>Events on these lines</h3>\n" + format_timeline(shown) +
           format_stacks(finding, files);
}

/// "region 1: <code>inbox</code>", "4 regions, first region 1: ..."
std::string format_regions(const code_location &location) {
    std::string html = fmt::format("region {}", location.region);
    if (location.regions.size() > 1)
        html = fmt::format("{} regions, first {}", location.regions.size(), html);
    return location.region_name.empty()
               ? html
               : html + ": <code>" + escape_html(location.region_name) + "</code>";
}

/// A section for a code location: its first finding, and the others folded.
std::string format_location(const code_location &location, std::size_t number,
                            source_files &files) {
    std::string counts;
    for (const auto &[mode, count] : location.num_findings_by_mode)
        counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", mode, count);
    const bool is_certain = location.num_possible < location.num_findings;
    std::string html = fmt::format(
        "<h2>{}. {}{}</h2>\n{}<p>{} on {}, {}. Times: {}.</p>\n", number,
        is_certain ? "" : "Possible: ",
        escape_html(location.missing.empty() ? location.kind : "Missing: " + location.missing),
        format_insert(*location.findings.front().json, files), escape_html(location.kind),
        escape_html(location.device), format_regions(location), escape_html(counts));
    if (location.num_possible != 0)
        html += "<p>Possible: " + escape_html(describe_doubts(location)) + ".</p>\n";
    html +=
        "<p class=soft>To suppress: <code>" + escape_html(location.suppression) + "</code></p>\n";
    for (std::size_t i = 0; i < location.findings.size(); ++i) {
        if (i == 1)
            html +=
                fmt::format("<details><summary>{} more</summary>\n", location.findings.size() - 1);
        if (i > 0)
            html += format_insert(*location.findings[i].json, files);
        html += format_finding(location.findings[i], location.missing, files);
    }
    return html + (location.findings.size() > 1 ? "</details>\n" : "");
}

/// A table with a row for each mode in which the command ran.
std::string format_runs(const std::vector<run_result> &runs) {
    std::string html =
        "<div class=scroll><table><thead><tr><th class=name>mode</th><th>status</th>"
        "<th>processes</th><th>certain</th><th>possible</th><th>suppressed</th><th>repeated</th>"
        "</tr></thead>\n";
    for (const run_result &run : runs)
        html += fmt::format("<tr><th class=name>{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td>"
                            "<td>{}</td><td>{}</td></tr>\n",
                            escape_html(run.emulation_mode), run.status, run.processes.size(),
                            run.num_findings() - run.num_possible(), run.num_possible(),
                            run.num_suppressed(), run.num_repeated());
    return html + "</table></div>\n";
}

constexpr const char *LEGEND =
    "<h3>How to read the events</h3>\n<div class=legend>"
    "<span><span class=\"cell clean part\">clean</span>both copies are equal</span>"
    "<span><span class=\"cell dirty part\">dirty</span>the program wrote; the device has old "
    "data</span>"
    "<span><span class=\"cell stale part\">stale</span>the device wrote; the program has old "
    "data</span>"
    "<span><span class=\"cell conflict part\">conflict</span>both wrote</span></div>\n"
    "<p class=soft>Each event shows the lines as it leaves them; those that it concerns are "
    "filled. "
    "The CPU's stores and the arrival of data are not seen: they are inferred, between two events, "
    "from the state in which the later one found the lines.</p>\n";

} // namespace

std::string as_html(const std::vector<run_result> &runs, const std::vector<std::string> &command) {
    std::string html = begin_page("Missing syncs", std::string(run::SOURCE_STYLE) + PAGE_STYLE) +
                       "<p class=soft><code>";
    for (const std::string &word : command)
        html += escape_html(word.find(' ') != std::string::npos ? "'" + word + "' " : word + " ");
    html += "</code></p>\n" + format_runs(runs);
    const std::vector<code_location> locations = group_findings(runs);
    source_files files;
    std::size_t number = 0;
    for (const code_location &location : locations)
        html += format_location(location, ++number, files);
    html += locations.empty() ? "<p>No findings.</p>\n" : LEGEND;
    return html + run::format_files_without_lines(frames_of(locations)) + "</body></html>\n";
}

} // namespace tools::emulate

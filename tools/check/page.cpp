// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The report as a page of HTML.

#include "check/history.hpp"
#include "check/report.hpp"
#include "html.hpp"
#include "run/source_html.hpp"

#include <fmt/core.h>

namespace tools::check {
namespace {

using namespace coherdma::reports;
using json = nlohmann::ordered_json;

constexpr const char *PAGE_STYLE = R"(
:root { --warn: #8a6100; } @media (prefers-color-scheme: dark) { :root { --warn: #e8c15a; } }
h2 { border-top: 1px solid var(--line); padding-top: 1.6rem; overflow-wrap: anywhere; }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; overflow-wrap: anywhere; } p { overflow-wrap: anywhere; }
.about { display: flex; flex-wrap: wrap; gap: .3rem .9rem; align-items: center; margin: .2rem 0 .8rem; }
.about code { min-width: 0; overflow-wrap: anywhere; }
.level { border: 1px solid; border-radius: 4px; padding: 0 .5rem; font-size: .85rem; font-weight: 650; }
.error { color: var(--bad); } .warning-level { color: var(--warn); }
.sums { display: flex; flex-wrap: wrap; gap: .3rem 1.6rem; padding: .7rem 1rem; margin: 1rem 0; }
.sums b { font-size: 1.15rem; }
.contents { padding-left: 1.6rem; } .contents li { padding: .15rem 0; overflow-wrap: anywhere; }
.contents a { color: inherit; }
@media (max-width: 640px) { body { padding: 1.4rem .8rem 2rem; } }
)";

std::string level_class(const finding_place &place) {
    return place.is_error ? "error" : "warning-level";
}

/// The source that the finding has, with the line of the wrong call marked.
std::string format_source(const json &place) {
    if (place.is_null() || place.at("source").empty())
        return "";
    std::vector<std::pair<int, std::string>> lines;
    for (const json &line : place.at("source"))
        lines.emplace_back(line.at("line").get<int>(), line.at("text").get<std::string>());
    const std::string title = place.at("file").is_null() ? "" : place.at("file").get<std::string>();
    return "<h3>" + escape_html(title) + "</h3>\n" +
           run::format_source_lines(lines,
                                    {place.at("line").is_null() ? 0 : place.at("line").get<int>()});
}

std::string format_circumstances(const json &finding) {
    return fmt::format("<p class=soft>Process {}, device {}, {:.6f} s after its first device was "
                       "opened.</p>\n",
                       finding.at("pid").get<long>(),
                       escape_html(finding.at("device").get<std::string>()),
                       finding.at("time").get<double>());
}

/// The other findings of a place, folded: each has its object, and so its history.
std::string format_others(const finding_place &place, source_files &files) {
    if (place.findings.size() == 1)
        return "";
    std::string html =
        fmt::format("<details><summary>{} more here</summary>\n", place.findings.size() - 1);
    for (auto finding = place.findings.begin() + 1; finding != place.findings.end(); ++finding)
        html += "<h3>" + escape_html((*finding)->at("title").get<std::string>()) + "</h3>\n" +
                format_circumstances(**finding) + format_history(**finding, files);
    return html + "</details>\n";
}

/// A section for a place, with its first finding.
std::string format_place(const finding_place &place, std::size_t number, source_files &files) {
    const json &finding = *place.findings.front();
    std::string devices;
    for (const std::string &device : place.devices)
        devices += (devices.empty() ? "" : ", ") + device;
    std::string html = fmt::format(
        "<h2 id=place{}>{}. {}</h2>\n<div class=about><span class=\"level {}\">{}</span>"
        "<code>{}</code><code>{}</code><span class=soft>{}{}</span></div>\n<p>{}</p>\n",
        number, number, escape_html(place.title), level_class(place),
        place.is_error ? "error" : "warning", escape_html(place.kind),
        escape_html(describe_place(place)), escape_html(devices),
        place.num_findings > 1 ? fmt::format(", {} times", place.num_findings) : "",
        escape_html(finding.at("why").get<std::string>()));
    return html + format_source(finding.at("place")) + format_history(finding, files) +
           "<h3>What to do</h3>\n<p>" + escape_html(finding.at("fix").get<std::string>()) +
           "</p>\n<p class=soft>To suppress it: <code>" + escape_html(place.suppression) +
           "</code></p>\n" + format_circumstances(finding) + format_others(place, files);
}

std::string format_sums(const run_result &result) {
    const struct {
        std::size_t number;
        const char *singular, *plural;
    } sums[] = {{result.num_errors(), "error", "errors"},
                {result.num_warnings(), "warning", "warnings"},
                {result.num_repeated(), "repeated", "repeated"},
                {result.num_suppressed(), "suppressed", "suppressed"},
                {result.processes.size(), "process", "processes"}};
    std::string html = "<div class=\"card sums\">";
    for (const auto &sum : sums)
        html += fmt::format("<span><b>{}</b> <span class=soft>{}</span></span>", sum.number,
                            sum.number == 1 ? sum.singular : sum.plural);
    return html + "</div>\n";
}

/// Processes whose findings can be missing.
std::string format_incomplete(const run_result &result) {
    std::string html;
    if (!result.was_checked())
        html = "<p class=warning>Nothing was checked: no process opened an RDMA device.</p>\n";
    for (const process &p : result.processes)
        if (!p.complete)
            html += fmt::format("<p class=warning>Process {} ended without a summary: findings can "
                                "be missing.</p>\n",
                                p.pid);
    return html;
}

/// Links to the sections.
std::string format_contents(const std::vector<finding_place> &places) {
    if (places.size() < 2)
        return "";
    std::string html = "<ol class=contents>\n";
    std::size_t number = 0;
    for (const finding_place &place : places)
        html += fmt::format("<li><a href=#place{}>{}</a> <code class={}>{}</code> "
                            "<span class=soft>{}</span></li>\n",
                            ++number, escape_html(place.title), level_class(place),
                            escape_html(place.kind), escape_html(describe_place(place)));
    return html + "</ol>\n";
}

} // namespace

std::string as_html(const run_result &result, const std::vector<std::string> &command) {
    std::string html =
        begin_page("Misuse of verbs", std::string(run::SOURCE_STYLE) + PAGE_STYLE + HISTORY_STYLE) +
        "<p class=soft><code>";
    for (const std::string &word : command)
        html += escape_html(word.find(' ') != std::string::npos ? "'" + word + "' " : word + " ");
    html += "</code></p>\n" + format_sums(result) + format_incomplete(result);
    const std::vector<finding_place> places = group_findings(result);
    html += format_contents(places);
    source_files files;
    std::size_t number = 0;
    for (const finding_place &place : places)
        html += format_place(place, ++number, files);
    if (places.empty())
        html += "<p>No findings.</p>\n";
    return html + run::format_files_without_lines(frames_of(result)) + "</body></html>\n";
}

} // namespace tools::check

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "check/report.hpp"

#include "run/debug_info.hpp"
#include "text.hpp"

#include <algorithm>
#include <fmt/core.h>

namespace tools::check {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t WIDTH = 79, TITLE_INDENT = 9, PLACE_WIDTH = 36;

std::string format_place(const finding_place &place) {
    std::string name = make_printable(describe_place(place));
    if (name.size() > PLACE_WIDTH) // the file and line suffice
        name = name.substr(0, name.find(" in "));
    if (name.size() > PLACE_WIDTH)
        name = wrap_text(name, PLACE_WIDTH - 3).front() + "...";
    std::string text =
        fmt::format("{:<8} {:<26} {:<{}} {:>6}\n", place.is_error ? "error" : "warning",
                    make_printable(place.kind), name, PLACE_WIDTH, place.num_findings);
    for (const std::string &line : wrap_text(make_printable(place.title), WIDTH - TITLE_INDENT))
        text += std::string(TITLE_INDENT, ' ') + line + "\n";
    return text;
}

std::string format_sums(const run_result &result, std::size_t num_places) {
    std::string text = format_count(result.num_errors(), "error", "errors") + ", " +
                       format_count(result.num_warnings(), "warning", "warnings");
    if (num_places != 0)
        text += " at " + format_count(num_places, "place", "places");
    text += " in " + format_count(result.processes.size(), "process", "processes");
    if (result.num_repeated() != 0)
        text += fmt::format("; {} repeated", result.num_repeated());
    if (result.num_suppressed() != 0)
        text += fmt::format("; {} suppressed", result.num_suppressed());
    text += "\n";
    const auto num_incomplete = std::count_if(result.processes.begin(), result.processes.end(),
                                              [](const process &p) { return !p.complete; });
    if (num_incomplete != 0)
        text += fmt::format(
            "findings can be missing: {} ended without a summary\n",
            format_count(static_cast<std::size_t>(num_incomplete), "process", "processes"));
    return text;
}

json to_json(const process &p) {
    return {{"pid", p.pid},           {"complete", p.complete},     {"errors", p.errors},
            {"warnings", p.warnings}, {"suppressed", p.suppressed}, {"repeated", p.repeated}};
}

/// count: with findings that were only counted; frame: null if it is not known.
json to_json(const finding_place &place) {
    return {{"kind", place.kind},
            {"level", place.is_error ? "error" : "warning"},
            {"frame", place.frame.empty() ? json(nullptr) : json(place.frame)},
            {"title", place.title},
            {"devices", place.devices},
            {"count", place.num_findings},
            {"suppression", place.suppression}};
}

} // namespace

std::string as_table(const run_result &result) {
    const std::vector<finding_place> places = group_findings(result);
    std::string text;
    if (!places.empty())
        text = fmt::format("{:<8} {:<26} {:<{}} {:>6}\n", "LEVEL", "KIND", "PLACE", PLACE_WIDTH,
                           "COUNT");
    for (const finding_place &place : places)
        text += format_place(place);
    if (!places.empty())
        text += "\n";
    text += format_sums(result, places.size());
    if (!places.empty())
        text += fmt::format("more on a kind: coherdma check --explain {}\n",
                            make_printable(places.front().kind));
    return text + run::list_files_without_lines(frames_of(result));
}

std::string as_json(const run_result &result, const std::vector<std::string> &command, int status) {
    json report = {{"schema", 1},
                   {"command", command},
                   {"command_status", result.status},
                   {"status", status},
                   {"processes", json::array()},
                   {"findings", json::array()},
                   {"places", json::array()}};
    for (const process &p : result.processes)
        report["processes"].push_back(to_json(p));
    for (const logged_finding &finding : result.findings)
        report["findings"].push_back(finding.json);
    for (const finding_place &place : group_findings(result))
        report["places"].push_back(to_json(place));
    report["summary"] = {{"errors", result.num_errors()},
                         {"warnings", result.num_warnings()},
                         {"places", report["places"].size()},
                         {"suppressed", result.num_suppressed()},
                         {"repeated", result.num_repeated()},
                         {"by_kind", result.by_kind},
                         {"complete", result.was_checked() && result.has_all_summaries()}};
    return report.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

} // namespace tools::check

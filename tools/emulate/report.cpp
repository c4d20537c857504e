// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "emulate/report.hpp"

#include "emulate/timeline.hpp"
#include "run/debug_info.hpp"
#include "text.hpp"

#include <algorithm>
#include <fmt/core.h>

namespace tools::emulate {
namespace {

using tools::format_entry;
using json = nlohmann::ordered_json;

constexpr std::size_t WIDTH = 79;

/// Lines of words in 79 columns.
std::string format_wrapped(const std::string &text, const std::string &indent) {
    std::string lines;
    for (const std::string &line : wrap_text(make_printable(text), WIDTH - indent.size()))
        lines += indent + line + "\n";
    return lines;
}

/// The lines of source around a call of the program, with a mark at the call.
std::string format_source(const json &place) {
    std::string text;
    if (place.is_null())
        return text;
    const int call_line = place_frame(place).line;
    for (const json &line : place.at("source")) {
        const int number = line.at("line");
        const std::string row = fmt::format("  {}{:5}  {}", number == call_line ? '>' : ' ', number,
                                            line.at("text").get<std::string>());
        text += make_printable(row.substr(0, WIDTH)) + "\n";
    }
    return text;
}

/// The call to insert, where, and the source there. "" if no call is missing.
std::string format_insert(const code_location &location) {
    if (location.insert.empty())
        return "";
    const std::size_t end = std::min(location.insert.find("; "), location.insert.size());
    std::string call = location.insert.substr(0, end) + ";";
    if (call.size() > WIDTH) // without the folder it may be one line, as editors and grep want it
        call.erase(0, location.place.rfind('/') + 1);
    std::string text = format_wrapped(call, "");
    if (end < location.insert.size())
        text += format_wrapped(location.insert.substr(end + 2), "  ");
    const std::string after = format_source(location.after),
                      before = format_source(location.before);
    text += after;
    if (before != after)
        text += (after.empty() || before.empty() ? "" : "   ...\n") + before;
    return text;
}

/// What the memory is: "region 3", "4 regions, the first: region 3", with the name if it has one.
std::string format_region(const code_location &location) {
    const std::string name = fmt::format("region {}, bytes {}..{} of {}", location.region,
                                         location.begin, location.end - 1, location.region_length);
    return location.regions.size() == 1
               ? name
               : fmt::format("{} regions; {}", location.regions.size(), name);
}

/// As tools::format_entry(), with the frames of a stack.
std::string format_entry(const char *name, std::vector<std::string> lines,
                         const std::vector<std::string> &frames) {
    for (const std::string &frame : frames)
        lines.push_back(shorten_frame(frame));
    return format_entry(name, lines);
}

std::string format_counts(const code_location &location) {
    std::string text;
    for (const auto &[mode, count] : location.num_findings_by_mode)
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", mode, count);
    return text;
}

/// What the findings of one code location have in common: the lines of memory, the sync that is
/// missing, and the calls that led to them.
std::string format_location(const code_location &location) {
    std::string text = "\n" + format_insert(location) +
                       fmt::format("{:<15} {:<12} {}\n", make_printable(location.kind),
                                   make_printable(location.device), format_region(location));
    if (location.num_possible != 0)
        text += format_entry("possible", {describe_doubts(location)});
    if (!location.region_name.empty())
        text += format_entry("memory", {location.region_name});
    if (!location.missing.empty())
        text += format_entry("missing", {location.missing});
    if (!location.request.empty())
        text += format_entry("request", {location.request}, location.request_stack);
    text += format_entry("last sync", {location.sync.empty() ? "none" : location.sync},
                         location.sync_stack);
    return text + format_entry("registered", {}, location.registration_stack) +
           format_entry("times", {format_counts(location)}) +
           format_entry("suppress", {location.suppression});
}

json to_json(const process &p) {
    return {{"pid", p.pid},           {"complete", p.complete},     {"findings", p.findings},
            {"possible", p.possible}, {"suppressed", p.suppressed}, {"repeated", p.repeated}};
}

/// The command's run in one mode. emulated: a process used an emulated device; complete: no
/// findings are missing; count: with findings that were not logged.
json to_json(const run_result &run) {
    json object = {{"mode", run.emulation_mode},     {"status", run.status},
                   {"emulated", run.was_emulated()}, {"complete", run.has_all_summaries()},
                   {"count", run.num_findings()},    {"possible", run.num_possible()},
                   {"processes", json::array()},     {"findings", run.findings}};
    for (const process &p : run.processes)
        object["processes"].push_back(to_json(p));
    return object;
}

/// insert, after, before, region_name, suppression: as in the first finding; regions: in how many
/// memory regions; possible: how many findings are not certain.
/// region: the number of the memory region of the first finding; begin, end: offsets in it;
/// missing: the sync call that the program lacks; times: the number of findings; by: in each mode;
/// ..._at: the call and its callers.
json to_json(const code_location &location) {
    return {
        {"kind", location.kind},
        {"device", location.device},
        {"insert", location.insert.empty() ? json(nullptr) : json(location.insert)},
        {"after", location.after},
        {"before", location.before},
        {"regions", location.regions.size()},
        {"region", location.region},
        {"region_name", location.region_name.empty() ? json(nullptr) : json(location.region_name)},
        {"region_length", location.region_length},
        {"begin", location.begin},
        {"end", location.end},
        {"missing", location.missing.empty() ? json(nullptr) : json(location.missing)},
        {"request", location.request},
        {"request_at", location.request_stack},
        {"sync", location.sync},
        {"sync_at", location.sync_stack},
        {"registered_at", location.registration_stack},
        {"times", location.num_findings},
        {"possible", location.num_possible},
        {"suppression", location.suppression},
        {"by", location.num_findings_by_mode}};
}

} // namespace

std::string as_table(const std::vector<run_result> &runs) {
    std::string text =
        fmt::format("{:<26} {:>6} {:>9} {:>7} {:>8} {:>10} {:>8}\n", "MODE", "STATUS", "PROCESSES",
                    "CERTAIN", "POSSIBLE", "SUPPRESSED", "REPEATED");
    for (const run_result &run : runs)
        text +=
            fmt::format("{:<26} {:>6} {:>9} {:>7} {:>8} {:>10} {:>8}\n", run.emulation_mode,
                        run.status, run.processes.size(), run.num_findings() - run.num_possible(),
                        run.num_possible(), run.num_suppressed(), run.num_repeated());
    const std::vector<code_location> locations = group_findings(runs);
    for (const code_location &location : locations)
        text += format_location(location);
    return text + run::list_files_without_lines(frames_of(locations));
}

std::string as_json(const std::vector<run_result> &runs, int status) {
    json report = {{"schema", 1}, {"status", status}, {"runs", json::array()}};
    for (const run_result &entry : runs)
        report["runs"].push_back(to_json(entry));
    report["places"] = json::array();
    const std::vector<code_location> locations = group_findings(runs);
    for (const code_location &entry : locations)
        report["places"].push_back(to_json(entry));
    report["without_lines"] = json::array();
    for (const run::file_without_lines &file : run::files_without_lines(frames_of(locations)))
        report["without_lines"].push_back(
            {{"file", file.path},
             {"package", file.package.empty() ? json(nullptr) : json(file.package)},
             {"fix", file.fix}});
    return report.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

} // namespace tools::emulate

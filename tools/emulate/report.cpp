// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "emulate/report.hpp"

#include "wrap.hpp"

#include <cctype>
#include <fmt/format.h>

namespace tools::emulate {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t WIDTH = 79;

/// Without the folders of the file: "main (mailbox+0x34)".
std::string short_of(std::string frame) {
    if (const std::size_t path = frame.find(" (/"); path != std::string::npos)
        frame.erase(path + 2, frame.rfind('/') + 1 - (path + 2));
    return frame;
}

/// Names come from programs: they move no cursor.
std::string printable(std::string text) {
    for (char &each : text)
        if (std::iscntrl(static_cast<unsigned char>(each)) != 0)
            each = '?';
    return text;
}

std::string entry(const char *name, std::vector<std::string> words,
                  const std::vector<std::string> &frames = {}) {
    for (const std::string &each : frames)
        words.push_back(short_of(each));
    std::string text;
    const std::string indent(14, ' ');
    for (const std::string &each : words)
        for (const std::string &line : wrapped(printable(each), WIDTH - indent.size()))
            text +=
                fmt::format("{}{}\n", text.empty() ? fmt::format("  {:<12}", name) : indent, line);
    return text;
}

std::string modes_of(const place &at) {
    std::string text;
    for (const auto &[mode, times] : at.by)
        text += fmt::format("{}{} {}", text.empty() ? "" : ", ", mode, times);
    return text;
}

std::string text_of(const place &at) {
    std::string text =
        fmt::format("\n{:<15} {:<12} region {}, bytes {}..{} of {}\n", printable(at.kind),
                    printable(at.device), at.region, at.begin, at.end - 1, at.region_length);
    if (!at.missing.empty())
        text += entry("missing", {at.missing});
    if (!at.request.empty())
        text += entry("request", {at.request}, at.request_at);
    text += entry("last sync", {at.sync.empty() ? "none" : at.sync}, at.sync_at);
    return text + entry("registered", {}, at.registered_at) + entry("times", {modes_of(at)});
}

json json_of(const process &one) {
    return {{"pid", one.pid},
            {"complete", one.complete},
            {"findings", one.findings},
            {"suppressed", one.suppressed},
            {"repeated", one.repeated}};
}

json json_of(const run_result &run) {
    json all = {{"mode", run.mode},           {"status", run.status}, {"played", run.played()},
                {"complete", run.complete()}, {"count", run.count()}, {"processes", json::array()},
                {"findings", run.findings}};
    for (const process &each : run.processes)
        all["processes"].push_back(json_of(each));
    return all;
}

json json_of(const place &at) {
    return {{"kind", at.kind},
            {"device", at.device},
            {"region", at.region},
            {"region_length", at.region_length},
            {"begin", at.begin},
            {"end", at.end},
            {"missing", at.missing.empty() ? json(nullptr) : json(at.missing)},
            {"request", at.request},
            {"request_at", at.request_at},
            {"sync", at.sync},
            {"sync_at", at.sync_at},
            {"registered_at", at.registered_at},
            {"times", at.times},
            {"by", at.by}};
}

} // namespace

std::string as_table(const std::vector<run_result> &all) {
    std::string text = fmt::format("{:<26} {:>6} {:>9} {:>8} {:>10} {:>8}\n", "MODE", "STATUS",
                                   "PROCESSES", "FINDINGS", "SUPPRESSED", "REPEATED");
    for (const run_result &each : all)
        text +=
            fmt::format("{:<26} {:>6} {:>9} {:>8} {:>10} {:>8}\n", each.mode, each.status,
                        each.processes.size(), each.count(), each.suppressed(), each.repeated());
    for (const place &each : places_of(all))
        text += text_of(each);
    return text;
}

std::string as_json(const std::vector<run_result> &all, int status) {
    json report = {{"schema", 1}, {"status", status}, {"runs", json::array()}};
    for (const run_result &each : all)
        report["runs"].push_back(json_of(each));
    report["places"] = json::array();
    for (const place &each : places_of(all))
        report["places"].push_back(json_of(each));
    return report.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

} // namespace tools::emulate

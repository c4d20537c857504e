// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "fault/report.hpp"

#include "text.hpp"

#include <algorithm>
#include <fmt/core.h>

namespace tools::fault {
namespace {

using json = nlohmann::ordered_json;

constexpr std::size_t WIDTH = 79, EVENT_INDENT = 12, TRIAL_INDENT = 4;

std::string indent_lines(const std::string &text, std::size_t indent) {
    std::string result;
    for (const std::string &line : wrap_text(make_printable(text), WIDTH - indent))
        result += std::string(indent, ' ') + line + "\n";
    return result;
}

std::string describe(const event &done) {
    return fmt::format("{:>8.3f} s  {} ({}): {}\n", done.seconds, make_printable(done.program),
                       done.pid, make_printable(done.fault)) +
           indent_lines(done.text, EVENT_INDENT);
}

std::string describe_left(const std::map<std::string, long> &left) {
    std::string text;
    for (const auto &[kind, count] : left)
        text +=
            fmt::format("{}{} {}{}", text.empty() ? "" : ", ", count, kind, count == 1 ? "" : "s");
    return text;
}

std::string describe(const trial &tried) {
    std::string result = name_of(tried.result);
    if (tried.result == outcome::FAILS || tried.result == outcome::CRASHES)
        result += fmt::format(", status {}", tried.status.value_or(0));
    std::string text =
        fmt::format("{:<48} {}\n", make_printable(tried.scenario()), result) +
        indent_lines("in " + tried.program + ": " + shorten_frame(tried.place), TRIAL_INDENT);
    if (tried.is_bad() && !tried.last_line.empty())
        text += indent_lines("it says: " + tried.last_line, TRIAL_INDENT);
    if (!tried.left.empty())
        text += indent_lines("left at its end: " + describe_left(tried.left), TRIAL_INDENT);
    return text;
}

std::size_t count(const std::vector<trial> &trials, outcome result) noexcept {
    return static_cast<std::size_t>(std::count_if(
        trials.begin(), trials.end(), [=](const trial &tried) { return tried.result == result; }));
}

} // namespace

std::string as_text(const run_report &report) {
    std::string text;
    for (const event &done : report.log.events)
        text += describe(done);
    if (!text.empty())
        text += "\n";
    for (const std::string &fault : report.faults) {
        const fault_count sum = report.log.sum_of(fault);
        if (sum.done <= 0)
            text += fmt::format("not done: {} (counted: {})\n", make_printable(fault), sum.counted);
    }
    if (const std::size_t count = report.log.num_without_summary(); count != 0)
        text +=
            fmt::format("{} ended without a summary, by a signal or _exit(): nothing of {} is "
                        "counted\n",
                        format_count(count, "process", "processes"), count == 1 ? "it" : "them");
    return text + fmt::format("{}, seed {}\n",
                              format_count(report.log.events.size(), "event", "events"),
                              report.seed);
}

std::string as_json(const run_report &report, const std::vector<std::string> &command) {
    json events = json::array(), faults = json::array();
    for (const event &done : report.log.events)
        events.push_back(done.json);
    for (const std::string &fault : report.faults) {
        const fault_count sum = report.log.sum_of(fault);
        faults.push_back({{"fault", fault}, {"counted", sum.counted}, {"done", sum.done}});
    }
    const json result = {{"command", command},
                         {"status", report.status},
                         {"seed", report.seed},
                         {"faults", faults},
                         {"events", events}};
    return result.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string as_text(const std::vector<trial> &trials) {
    std::string text;
    for (const trial &tried : trials)
        text += describe(tried);
    const auto num_left =
        std::count_if(trials.begin(), trials.end(), [](const trial &t) { return !t.left.empty(); });
    return text + fmt::format("\n{}: {}, {}; {} with objects left, {} unnoticed\n",
                              format_count(trials.size(), "call", "calls"),
                              format_count(count(trials, outcome::CRASHES), "crash", "crashes"),
                              format_count(count(trials, outcome::HANGS), "hang", "hangs"),
                              num_left, count(trials, outcome::GOES_ON));
}

std::string as_json(const std::vector<trial> &trials, const std::vector<std::string> &command,
                    int status) {
    json rows = json::array();
    for (const trial &tried : trials)
        rows.push_back({{"program", tried.program},
                        {"call", tried.call},
                        {"number", tried.number},
                        {"error", tried.error},
                        {"place", tried.place},
                        {"outcome", name_of(tried.result)},
                        {"status", tried.status ? json(*tried.status) : json()},
                        {"last_line", tried.last_line},
                        {"left", tried.left}});
    const json result = {{"command", command}, {"status", status}, {"calls", rows}};
    return result.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

} // namespace tools::fault

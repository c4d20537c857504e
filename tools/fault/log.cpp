// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "fault/log.hpp"

#include "run/session.hpp"

#include <algorithm>
#include <sstream>

namespace tools::fault {
namespace {

using json = nlohmann::ordered_json;

/// Throws if a member is missing or of another type.
void add_summary(const json &summary, process &p) {
    p.program = summary.at("program").get<std::string>();
    p.has_device = p.has_device || summary.at("device").get<bool>();
    p.left = summary.at("left").get<std::map<std::string, long>>();
    p.faults.clear();
    for (const json &fault : summary.at("faults")) {
        // A scenario may have the same fault twice.
        fault_count &count = p.faults[fault.at("fault").get<std::string>()];
        count.counted = std::max(count.counted, fault.at("counted").get<std::uint64_t>());
        count.done += fault.at("done").get<long>();
    }
    for (const json &call : summary.at("calls"))
        p.calls.push_back({.name = call.at("call").get<std::string>(),
                           .place = call.at("place").get<std::string>(),
                           .first = call.at("first").get<std::uint64_t>(),
                           .count = call.at("count").get<std::uint64_t>()});
    p.is_complete = true;
}

/// What an event adds to the faults that were made: as the process counts them.
long count_done(const json &line) {
    const bool is_undone = line.contains("not_done");
    if (line.contains("completed"))
        return line.at("completed") == "receive" ? 1 : 0;
    if (line.contains("posted")) // a receive counts when it is completed
        return line.at("posted") == "receive" ? 0 : is_undone ? -1 : 1;
    const bool is_done = line.contains("call") || line.contains("event") || line.contains("late") ||
                         line.contains("limit") || line.contains("action");
    return is_done && !is_undone ? 1 : 0;
}

void add_event(const json &line, process &p, run_log &result) {
    event added = {.seconds = line.at("time").get<double>(),
                   .pid = line.at("pid").get<long>(),
                   .program = line.at("program").get<std::string>(),
                   .fault = line.at("fault").get<std::string>(),
                   .text = line.at("text").get<std::string>(),
                   .place = line.value("place", ""),
                   .json = line};
    p.program = added.program;
    p.faults[added.fault].done += count_done(line);
    result.events.push_back(std::move(added));
}

void add_line(const json &line, process &p, run_log &result) {
    if (line.contains("summary"))
        add_summary(line.at("summary"), p);
    else if (line.contains("opened")) {
        p.has_device = line.at("opened").get<bool>();
        p.first_device = line.at("device").get<std::string>();
    } else
        add_event(line, p, result);
}

} // namespace

bool run_log::has_device() const noexcept {
    return !events.empty() || std::any_of(processes.begin(), processes.end(),
                                          [](const process &p) { return p.has_device; });
}

std::string run_log::first_device() const {
    for (const process &p : processes)
        if (!p.first_device.empty())
            return p.first_device;
    return "";
}

bool run_log::has_effect() const noexcept {
    return std::any_of(processes.begin(), processes.end(), [](const process &p) {
        return std::any_of(p.faults.begin(), p.faults.end(),
                           [](const auto &fault) { return fault.second.done > 0; });
    });
}

fault_count run_log::sum_of(const std::string &fault) const {
    fault_count sum;
    for (const process &p : processes)
        if (const auto match = p.faults.find(fault); match != p.faults.end()) {
            sum.counted += match->second.counted;
            sum.done += match->second.done;
        }
    return sum;
}

std::size_t run_log::num_without_summary() const noexcept {
    return static_cast<std::size_t>(std::count_if(processes.begin(), processes.end(),
                                                  [](const process &p) { return !p.is_complete; }));
}

void read_log(const std::string &text, long pid, run_log &result) {
    process p;
    p.pid = pid;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        try {
            add_line(json::parse(line), p, result);
        } catch (const json::exception &) { // cut off, as its process was killed
        }
    }
    result.processes.push_back(p);
}

run_log read_logs(const std::string &folder) {
    run_log result;
    for (const auto &[pid, file] : run::list_process_logs(folder))
        read_log(run::read_file(file), pid, result);
    return result;
}

} // namespace tools::fault

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
    for (const json &fault : summary.at("faults")) {
        fault_count &count = p.faults[fault.at("fault").get<std::string>()];
        count.counted += fault.at("counted").get<std::uint64_t>();
        count.done += fault.at("done").get<std::uint64_t>();
    }
    for (const json &call : summary.at("calls"))
        p.calls.push_back({.name = call.at("call").get<std::string>(),
                           .place = call.at("place").get<std::string>(),
                           .first = call.at("first").get<std::uint64_t>(),
                           .count = call.at("count").get<std::uint64_t>()});
    p.is_complete = true;
}

event to_event(const json &line) {
    return {.seconds = line.at("time").get<double>(),
            .pid = line.at("pid").get<long>(),
            .program = line.at("program").get<std::string>(),
            .fault = line.at("fault").get<std::string>(),
            .text = line.at("text").get<std::string>(),
            .json = line};
}

} // namespace

bool run_log::has_device() const noexcept {
    return !events.empty() || std::any_of(processes.begin(), processes.end(),
                                          [](const process &p) { return p.has_device; });
}

void read_log(const std::string &text, long pid, run_log &result) {
    process p;
    p.pid = pid;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        try {
            const json parsed = json::parse(line);
            if (parsed.contains("summary"))
                add_summary(parsed.at("summary"), p);
            else
                result.events.push_back(to_event(parsed));
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

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Lines of logs as the observer of coherdma check writes them.
#pragma once

#include "check/log.hpp"

#include <string>

namespace check_findings {

using json = nlohmann::ordered_json;

constexpr long PID = 7;

inline json make_event(const char *description, const std::string &file, int line,
                       const json &callers = json::array()) {
    json stack = {"main (" + file + ":" + std::to_string(line) + ")"};
    stack.insert(stack.end(), callers.begin(), callers.end());
    return {{"description", description},
            {"function", "main"},
            {"file", file},
            {"line", line},
            {"stack", stack}};
}

/// A finding at this line of /src/x.c.
inline json make_finding(const char *kind, int line) {
    return {
        {"kind", kind},
        {"level", "error"},
        {"device", "rxe0"},
        {"title", "64 completions can come, and the CQ has 16 entries"},
        {"why", "A CQ has <cqe> entries."},
        {"fix", "Create a larger CQ."},
        {"place",
         {{"function", "main"},
          {"file", "/src/x.c"},
          {"line", line},
          {"source", {{{"line", line}, {"text", "    ibv_post_send(qp, &wr, &bad);"}}}}}},
        {"events",
         {make_event("QP 17 created", "/src/x.c", 100), make_event("the post", "/src/x.c", line)}},
        {"suppression", std::string(kind) + ":rxe0:main"},
        {"place_number", 1},
        {"repeated", 0},
        {"suppressed", false},
        {"pid", PID},
        {"time", 0.25}};
}

/// The same in a program without debug information.
inline json make_finding_without_lines(const char *kind, const std::string &frame) {
    json finding = make_finding(kind, 1);
    finding["place"] = {
        {"function", "main"}, {"file", nullptr}, {"line", nullptr}, {"source", json::array()}};
    finding["events"] = {{{"description", "the post"},
                          {"function", "main"},
                          {"file", nullptr},
                          {"line", nullptr},
                          {"stack", {frame}}}};
    return finding;
}

inline json make_summary(int errors, int warnings = 0, const json &by_place = json::array()) {
    return {{"summary",
             {{"errors", errors},
              {"warnings", warnings},
              {"places", 1},
              {"suppressed", 3},
              {"repeated", 40},
              {"by_kind", {{"cq-overflow", errors}}},
              {"by_place", by_place}}},
            {"pid", PID}};
}

/// The log of a process with these lines.
inline tools::check::run_result make_run(std::initializer_list<json> lines) {
    std::string log;
    for (const json &line : lines)
        log += line.dump() + "\n";
    tools::check::run_result result;
    read_log(log, PID, result);
    return result;
}

} // namespace check_findings

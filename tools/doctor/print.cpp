// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Prints a report as text in 80 columns, or as JSON.

#include "doctor/doctor.hpp"
#include "text.hpp"

#include <array>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace tools::doctor {
namespace {

constexpr std::size_t WIDTH = 80;
constexpr std::size_t STATUS_WIDTH = 4;
constexpr std::size_t INDENT = STATUS_WIDTH + 2; // the column of the text after the status

// By check_status.
constexpr const char *STATUS_NAMES[] = {"ok", "warn", "fail", "skip"};
constexpr const char *STATUS_COLORS[] = {"\033[32m", "\033[33m", "\033[1;31m", "\033[2m"};

/// Prints wrapped text in the column after the status.
void print_indented(const std::string &text, std::FILE *out) {
    for (const std::string &line : wrap_text(text, WIDTH - INDENT))
        fmt::print(out, "{:{}}{}\n", "", INDENT, line);
}

/// "rxe0: port 1: ACTIVE, on eth0."
std::string format_result(const check &c) {
    return (c.device.empty() ? "" : c.device + ": ") + c.title + ": " + c.evidence;
}

/// Prints the status and the result of a check, and how to fix the problem.
void print_check(const check &c, std::FILE *out, bool use_color) {
    constexpr const char *RESET_COLOR = "\033[0m";
    const auto status = static_cast<std::size_t>(c.status);
    fmt::print(out, "{}{:<{}}{}", use_color ? STATUS_COLORS[status] : "", STATUS_NAMES[status],
               STATUS_WIDTH, use_color ? RESET_COLOR : "");
    const std::vector<std::string> lines = wrap_text(format_result(c), WIDTH - INDENT);
    fmt::print(out, "{:{}}{}\n", "", INDENT - STATUS_WIDTH, lines.front());
    for (std::size_t i = 1; i < lines.size(); ++i)
        print_indented(lines[i], out);
    if (!c.explanation.empty())
        print_indented(c.explanation, out);
    if (!c.fix.empty()) // not wrapped, so that it can be copied
        fmt::print(out, "{:{}}fix: {}\n", "", INDENT, c.fix);
}

const check *first_failed(const report &results) {
    for (const check &c : results.checks) {
        if (c.status == check_status::FAIL)
            return &c;
    }
    return nullptr;
}

/// The end of the report: the first fix, or the working devices.
std::string format_last_line(const report &results) {
    if (const check *failed = first_failed(results))
        return "fix: " + failed->fix;
    if (results.working_devices.empty())
        return "No RDMA device.";
    return (results.working_devices.size() == 1 ? "A working RDMA device: "
                                                : "Working RDMA devices: ") +
           join_names(results.working_devices);
}

} // namespace

const char *name_of(check_status status) {
    return STATUS_NAMES[static_cast<std::size_t>(status)];
}

void print_text(const report &results, std::FILE *out, bool use_color) {
    for (const check &c : results.checks)
        print_check(c, out, use_color);
    fmt::print(out, "\n{}\n", format_last_line(results));
}

std::string as_json(const report &results) {
    nlohmann::ordered_json document = {{"schema", 1}, {"checks", nlohmann::ordered_json::array()}};
    std::array<int, std::size(STATUS_NAMES)> counts{};
    for (const check &c : results.checks) {
        nlohmann::ordered_json entry = {{"id", c.id},
                                        {"state", name_of(c.status)},
                                        {"title", c.title},
                                        {"evidence", c.evidence},
                                        {"explanation", c.explanation},
                                        {"fix", c.fix}};
        if (!c.device.empty())
            entry["device"] = c.device;
        document["checks"].push_back(entry);
        ++counts[static_cast<std::size_t>(c.status)];
    }
    nlohmann::ordered_json summary;
    for (std::size_t i = 0; i < counts.size(); ++i)
        summary[STATUS_NAMES[i]] = counts[i];
    summary["working"] = results.working_devices;
    const check *failed = first_failed(results);
    summary["next"] = failed ? failed->fix : "";
    document["summary"] = summary;
    // File names can have any encoding.
    return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

} // namespace tools::doctor

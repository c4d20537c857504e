// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Prints a report as text in 80 columns, or as JSON.

#include "doctor/doctor.hpp"
#include "wrap.hpp"

#include <array>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace tools::doctor {
namespace {

constexpr std::size_t WIDTH = 80;
constexpr std::size_t INDENT = 6;

constexpr const char *NAMES[] = {"ok", "warn", "fail", "skip"};
constexpr const char *COLORS[] = {"\033[32m", "\033[33m", "\033[1;31m", "\033[2m"};

/// Prints wrapped text in the column after the status; the first line is already indented if
/// is_first_line.
void print_indented(const std::string &text, bool is_first_line, std::FILE *out) {
    for (const std::string &line : wrap_text(text, WIDTH - INDENT)) {
        fmt::print(out, "{:{}}{}\n", "", is_first_line ? 0 : INDENT, line);
        is_first_line = false;
    }
}

std::string format_heading(const check &c) {
    return (c.device.empty() ? "" : c.device + ": ") + c.title;
}

void print_check(const check &c, std::FILE *out, bool color) {
    const auto i = static_cast<std::size_t>(c.status);
    fmt::print(out, "{}{:<4}{}  ", color ? COLORS[i] : "", NAMES[i], color ? "\033[0m" : "");
    print_indented(format_heading(c) + ": " + c.evidence, true, out);
    if (!c.explanation.empty())
        print_indented(c.explanation, false, out);
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

std::string last_line(const report &results) {
    if (const check *failed = first_failed(results))
        return "fix: " + failed->fix;
    if (results.working.empty())
        return "No RDMA device.";
    return (results.working.size() == 1 ? "A working RDMA device: " : "Working RDMA devices: ") +
           join_names(results.working);
}

} // namespace

const char *name_of(check_status status) {
    return NAMES[static_cast<std::size_t>(status)];
}

void print_text(const report &results, std::FILE *out, bool color) {
    for (const check &c : results.checks)
        print_check(c, out, color);
    fmt::print(out, "\n{}\n", last_line(results));
}

std::string as_json(const report &results) {
    nlohmann::ordered_json document = {{"schema", 1}, {"checks", nlohmann::ordered_json::array()}};
    std::array<int, std::size(NAMES)> counts{};
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
        summary[NAMES[i]] = counts[i];
    summary["working"] = results.working;
    const check *failed = first_failed(results);
    summary["next"] = failed ? failed->fix : "";
    document["summary"] = summary;
    // File names can have any encoding.
    return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

} // namespace tools::doctor

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A report for people, in 80 columns, and for programs.

#include "doctor/doctor.hpp"
#include "wrap.hpp"

#include <array>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tools::doctor {
namespace {

constexpr std::size_t WIDTH = 80;
constexpr std::size_t INDENT = 6;

constexpr const char *NAMES[] = {"ok", "warn", "fail", "skip"};
constexpr const char *COLOURS[] = {"\033[32m", "\033[33m", "\033[1;31m", "\033[2m"};

/// Lines below the state's word; the first goes beside it.
void print_indented(const std::string &text, bool beside, std::FILE *to) {
    for (const std::string &line : wrapped(text, WIDTH - INDENT)) {
        fmt::print(to, "{:{}}{}\n", "", beside ? 0 : INDENT, line);
        beside = false;
    }
}

std::string heading(const check &about) {
    return (about.device.empty() ? "" : about.device + ": ") + about.title;
}

void print_check(const check &about, std::FILE *to, bool colour) {
    const auto index = static_cast<std::size_t>(about.is);
    fmt::print(to, "{}{:<4}{}  ", colour ? COLOURS[index] : "", NAMES[index],
               colour ? "\033[0m" : "");
    print_indented(heading(about) + ": " + about.evidence, true, to);
    if (!about.fix.empty())
        print_indented(about.fix, false, to);
    if (!about.command.empty()) // never broken: it is to be copied
        fmt::print(to, "{:{}}$ {}\n", "", INDENT, about.command);
}

const check *first_failed(const report &all) {
    for (const check &each : all.checks) {
        if (each.is == state::FAIL)
            return &each;
    }
    return nullptr;
}

std::string last_line(const report &all) {
    if (const check *first = first_failed(all))
        return first->command.empty() ? "Next: " + first->fix : "Next: type  " + first->command;
    if (all.working.empty())
        return "No RDMA device.";
    return (all.working.size() == 1 ? "A working RDMA device: " : "Working RDMA devices: ") +
           listed(all.working);
}

} // namespace

const char *name_of(state is) {
    return NAMES[static_cast<std::size_t>(is)];
}

void print_text(const report &all, std::FILE *to, bool colour) {
    for (const check &each : all.checks)
        print_check(each, to, colour);
    fmt::print(to, "\n{}\n", last_line(all));
}

std::string as_json(const report &all) {
    nlohmann::ordered_json top = {{"schema", 1}, {"checks", nlohmann::ordered_json::array()}};
    std::array<int, std::size(NAMES)> counts{};
    for (const check &each : all.checks) {
        nlohmann::ordered_json one = {{"id", each.id},       {"state", name_of(each.is)},
                                      {"title", each.title}, {"evidence", each.evidence},
                                      {"fix", each.fix},     {"command", each.command}};
        if (!each.device.empty())
            one["device"] = each.device;
        top["checks"].push_back(one);
        ++counts[static_cast<std::size_t>(each.is)];
    }
    nlohmann::ordered_json summary;
    for (std::size_t index = 0; index < counts.size(); ++index)
        summary[NAMES[index]] = counts[index];
    summary["working"] = all.working;
    const check *first = first_failed(all);
    summary["next"] = first ? first->command : "";
    top["summary"] = summary;
    // Names of files may be in any encoding.
    return top.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

} // namespace tools::doctor

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "selftest/report.hpp"

#include "coherency/evidence.hpp"
#include "text.hpp"

#include <algorithm>
#include <fmt/core.h>
#include <fmt/ranges.h>

namespace tools::selftest {
namespace {

constexpr std::size_t WIDTH = 79;

std::string heading(const char *text) {
    return fmt::format("\n{}\n", text);
}

/// A paragraph that begins with a label; its other lines are indented as much.
std::string labeled(const std::string &label, const std::string &text) {
    constexpr std::size_t LABEL_WIDTH = 16;
    std::string result;
    for (const std::string &line : wrap_text(make_printable(text), WIDTH - LABEL_WIDTH)) {
        result += fmt::format("{:<{}}{}\n", result.empty() ? label : "", LABEL_WIDTH, line);
    }
    return result;
}

std::string paragraph(const std::string &text) {
    return fmt::format("{}\n", fmt::join(wrap_text(make_printable(text), WIDTH), "\n"));
}

std::string list_item(const std::string &text) {
    return fmt::format("- {}\n", fmt::join(wrap_text(make_printable(text), WIDTH - 2), "\n  "));
}

std::string or_unknown(const std::string &text) {
    return text.empty() ? "unknown" : text;
}

std::string format_line_sizes(const machine_facts &machine) {
    const std::string size = machine.line_size == 0 ? "unknown" : std::to_string(machine.line_size);
    return machine.other_line_sizes.empty()
               ? size
               : fmt::format("{} (caches: {})", size, machine.other_line_sizes);
}

std::string format_machine(const report &report) {
    const machine_facts &machine = report.machine;
    std::string text = heading("MACHINE");
    text += labeled("CPU", machine.cpu + ", " + machine.architecture);
    text += labeled("board", machine.board);
    text += labeled("kernel", machine.kernel);
    if (!machine.environment.empty())
        text += labeled("environment", fmt::format("{}", fmt::join(machine.environment, ", ")));
    text += labeled("page size", std::to_string(machine.page_size));
    text += labeled("line size", format_line_sizes(machine));
    text += labeled("instructions", machine.instructions.empty()
                                        ? "none: " + machine.instructions_problem
                                        : machine.instructions);
    return text;
}

std::string format_device(const report &report) {
    const device_facts &device = report.device;
    std::string text = heading("DEVICE");
    text += labeled("name", device.name);
    text += labeled("driver", or_unknown(device.driver));
    text += labeled("transport", or_unknown(device.transport));
    text += labeled("hardware", or_unknown(device.vendor_and_part));
    text += labeled("firmware", or_unknown(device.firmware));
    return text;
}

std::string format_library_result(const report &report) {
    const library_result &library = report.library;
    std::string text = heading("COHERENCY");
    text += labeled("result", fmt::format("{}{}", coherdma_coherency_str(library.coherency),
                                          library.is_emulated ? ", emulated" : ""));
    text += labeled("strength", coherdma_strength_str(library.strength));
    text += labeled("rule", library.rule);
    text += labeled("explanation", library.explanation);
    if (!library.sync_problem.empty())
        text += labeled("refused", library.sync_problem);
    text += "\n" + evidence_heading();
    for (const coherdma_evidence &rule : library.rules)
        text += evidence_text(rule);
    text += heading("THE KERNEL'S OWN ANSWER");
    const coherdma_evidence *const kernel = find_kernel_rule(library);
    if (kernel && kernel->coherency != COHERDMA_UNKNOWN)
        text += paragraph(std::string(coherdma_coherency_str(kernel->coherency)) + ": " +
                          kernel->reason);
    else
        text += paragraph(std::string("Not read: ") + (kernel ? kernel->reason : "no rule"));
    return text;
}

const char *describe_variant(sync_variant variant) {
    switch (variant) {
    case sync_variant::NONE:
        return "none";
    case sync_variant::FENCES:
        return "fences only";
    case sync_variant::BEFORE_ONLY:
        return "before only";
    case sync_variant::AFTER_ONLY:
        return "after only";
    case sync_variant::NO_FENCES:
        return "without its fences";
    case sync_variant::FULL:
        return "full";
    }
    return "";
}

/// A cell of the table: the number of stale lines.
std::string format_stale(const std::vector<experiment> &experiments, data_path path,
                         sync_variant variant) {
    const auto it =
        std::find_if(experiments.begin(), experiments.end(), [&](const experiment &experiment) {
            return experiment.path == path && experiment.variant == variant;
        });
    if (it == experiments.end())
        return "-";
    if (!it->problem.empty())
        return "impossible";
    return it->rounds == 0 ? "not run" : std::to_string(it->num_stale);
}

/// What the table does not say: experiments that ended early or were not possible, and other data.
std::string format_notes(const test_run &test) {
    std::string text;
    std::uint64_t num_other = 0;
    std::vector<std::string> problems; // each once
    for (const experiment &experiment : test.experiments) {
        num_other += experiment.num_other;
        if (!experiment.problem.empty() &&
            std::find(problems.begin(), problems.end(), experiment.problem) == problems.end())
            problems.push_back(experiment.problem);
    }
    if (num_other != 0)
        text += list_item(fmt::format("Of the stale lines {} had data that is neither the old nor "
                                      "the new. A cache does not do that; the emulation's mode "
                                      "poison does.",
                                      num_other));
    for (const std::string &problem : problems)
        text += list_item("Impossible: " + problem + ".");
    if (!test.experiments.empty() && !test.is_sync_possible)
        text += list_item("The other buffer could not be synced either, so it can be the one that "
                          "was stale.");
    return text;
}

/// That were checked in an experiment.
std::uint64_t max_lines(const test_run &test) {
    std::uint64_t num_lines = 0;
    for (const experiment &experiment : test.experiments)
        num_lines = std::max(num_lines, experiment.num_lines);
    return num_lines;
}

std::string format_experiments(const report &report) {
    constexpr const char *ROW = "{:<20} {:>13} {:>13} {:>13} {:>13}\n";
    const test_run &test = report.test;
    std::string text = heading("EXPERIMENTS");
    if (!test.problem.empty())
        text += paragraph((test.experiments.empty() ? "None: " : "Ended early: ") + test.problem);
    if (test.experiments.empty())
        return text;
    text += paragraph(fmt::format(
        "Stale lines of {}{} in each: {} rounds of {} lines of {} bytes, {}. The device reads "
        "memory for a peer's Read and for an own Write, else it writes it.",
        test.problem.empty() ? "" : "at most ", max_lines(test), test.rounds, test.lines_per_round,
        report.device.line_size, test.has_peer ? "with a peer" : "the device connected to itself"));
    text += "\n" + fmt::format(fmt::runtime(ROW), "SYNC", "PEER'S READ", "PEER'S WRITE",
                               "OWN WRITE", "OWN READ");
    for (const sync_variant variant : ALL_VARIANTS)
        text += fmt::format(fmt::runtime(ROW), describe_variant(variant),
                            format_stale(test.experiments, data_path::PEER_READ, variant),
                            format_stale(test.experiments, data_path::PEER_WRITE, variant),
                            format_stale(test.experiments, data_path::OWN_WRITE, variant),
                            format_stale(test.experiments, data_path::OWN_READ, variant));
    if (const std::string notes = format_notes(test); !notes.empty())
        text += "\n" + notes;
    return text;
}

} // namespace

std::string report_text(const report &report, const conclusion &conclusion) {
    std::string text =
        fmt::format("coherdma selftest, report of coherdma {}, {}\n", report.version, report.time);
    text += paragraph(LEFT_OUT);
    text += format_machine(report) + format_device(report) + format_library_result(report) +
            format_experiments(report);
    text += heading("CONCLUSION");
    text += fmt::format("{}\n", agreement_str(conclusion.result));
    for (const std::string &reason : conclusion.reasons)
        text += list_item(reason);
    if (!conclusion.advice.empty())
        text += heading("WHAT TO DO");
    for (const std::string &advice : conclusion.advice)
        text += list_item(advice);
    text += heading("WHAT THIS RUN CANNOT SHOW");
    for (const std::string &limit : conclusion.limits)
        text += list_item(limit);
    return text + "\n" + paragraph("To send this report, see \"Report\" in docs/hardware.md.");
}

} // namespace tools::selftest

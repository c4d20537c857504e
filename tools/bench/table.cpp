// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "format.hpp"
#include "report.hpp"

#include <fmt/core.h>
#include <iterator>

namespace tools::bench {
namespace {

/// The four columns of one state of the lines; blank if it was not measured.
std::string format_timing(const sync_timing *timing) {
    if (!timing)
        return fmt::format("{:24}", "");
    const double ratio = timing->ratio_to_raw_loop;
    return fmt::format(" {:>6} {:>5} {:>5} {:>4}", format_number(timing->ns_per_line.p50),
                       format_number(timing->ns_per_line.p99),
                       format_number(timing->gigabytes_per_second()),
                       ratio > 0 ? fmt::format("{:.2f}", ratio) : "-");
}

/// The headings and rows of one call with one set of cache instructions: a row per size, four
/// columns per state of the lines.
void add_call_table(std::string &text, const measurements &results, const std::string &instructions,
                    const std::string &call) {
    text += fmt::format("\n{}, {}\n{:8}", instructions, format_occasion(call), "");
    for (const char *line_state : LINE_STATES)
        text += fmt::format(" {:->23}", fmt::format(" {} --", line_state));
    text += fmt::format("\n{:8}", "size");
    for (std::size_t i = 0; i < std::size(LINE_STATES); ++i)
        text += fmt::format(" {:>6} {:>5} {:>5} {:>4}", "ns p50", "p99", "GB/s", "/raw");
    text += '\n';
    for (const std::size_t bytes : results.options.sizes) {
        text += fmt::format("{:8}", format_size(bytes));
        for (const char *line_state : LINE_STATES)
            text += format_timing(find_timing(results, instructions, call, line_state, bytes));
        text += '\n';
    }
}

} // namespace

std::string as_table(const measurements &results) {
    std::string text;
    text += fmt::format("{}, {}, {} bytes a line\n", results.machine.cpu_model,
                        results.machine.kernel, results.machine.line_size);
    text +=
        fmt::format("ns per line, until completion; reading the clock adds {} ns to each call.\n"
                    "/raw: ratio to a raw loop of the instruction, median of pairs.\n",
                    format_number(results.machine.clock_read_ns));
    for (const auto &[instructions, call] : list_measured_calls(results))
        add_call_table(text, results, instructions, call);
    if (!results.scattered.empty())
        text += fmt::format(
            "\nscattered dirty lines, {}, before a Read\n{:>8} {:>14} {:>14} {:>9}\n",
            results.default_instructions, "ranges", "one call, ns", "a call each", "faster");
    for (const scattered_timing &timing : results.scattered)
        text += fmt::format("{:>8} {:>14} {:>14} {:>8.1f}x\n", timing.num_ranges,
                            format_number(timing.one_call_ns.p50),
                            format_number(timing.call_per_range_ns.p50), timing.speedup);
    if (results.coherent_call_ns.num_samples > 0)
        text += fmt::format("\none call with one range on a coherent device: {} ns (p99 {})\n",
                            format_number(results.coherent_call_ns.p50),
                            format_number(results.coherent_call_ns.p99));
    if (results.interrupted)
        text += "\nInterrupted: these are the results so far.\n";
    return text;
}

} // namespace tools::bench

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "format.hpp"
#include "report.hpp"

#include <fmt/core.h>
#include <iterator>

namespace tools::bench {
namespace {

constexpr const char *STATES[] = {"dirty", "clean", "uncached"};

std::string format_timing(const sync_timing *timing) {
    if (!timing)
        return fmt::format("{:24}", "");
    return fmt::format(" {:>6} {:>5} {:>5} {:>4}", format_number(timing->ns_per_line.p50),
                       format_number(timing->ns_per_line.p99),
                       format_number(timing->gigabytes_per_second()),
                       timing->ratio > 0 ? fmt::format("{:.2f}", timing->ratio) : "-");
}

void add_rows(std::string &text, const measurements &results, const std::string &instructions,
              const std::string &call) {
    text += fmt::format("\n{}, {}\n{:8}", instructions, format_call(call), "");
    for (const char *state : STATES)
        text += fmt::format(" {:->23}", fmt::format(" {} --", state));
    text += fmt::format("\n{:8}", "size");
    for (std::size_t state = 0; state < std::size(STATES); ++state)
        text += fmt::format(" {:>6} {:>5} {:>5} {:>4}", "ns p50", "p99", "GB/s", "/raw");
    text += '\n';
    for (const std::size_t bytes : results.options.sizes) {
        text += fmt::format("{:8}", size_name(bytes));
        for (const char *state : STATES)
            text += format_timing(find(results, instructions, call, state, bytes));
        text += '\n';
    }
}

} // namespace

std::string as_table(const measurements &results) {
    std::string text;
    text += fmt::format("{}, {}, {} bytes a line\n", results.host.cpu, results.host.kernel,
                        results.host.line_bytes);
    text +=
        fmt::format("ns per line, until completion; reading the clock adds {} ns to each call.\n"
                    "/raw: ratio to a bare loop, median of pairs.\n",
                    format_number(results.host.clock_ns));
    for (const auto &[instructions, call] : measured_calls(results))
        add_rows(text, results, instructions, call);
    if (!results.batches.empty())
        text += fmt::format(
            "\nscattered dirty lines, {}, before a Read\n{:>8} {:>14} {:>14} {:>9}\n",
            results.batch_instructions, "ranges", "one call, ns", "a call each", "faster");
    for (const batch &b : results.batches)
        text += fmt::format("{:>8} {:>14} {:>14} {:>8.1f}x\n", b.segments,
                            format_number(b.one_call_ns.p50), format_number(b.calls_each_ns.p50),
                            b.ratio);
    if (results.coherent_call_ns.count > 0)
        text += fmt::format("\none call with one range on a coherent device: {} ns (p99 {})\n",
                            format_number(results.coherent_call_ns.p50),
                            format_number(results.coherent_call_ns.p99));
    if (results.interrupted)
        text += "\nInterrupted: these are the results so far.\n";
    return text;
}

} // namespace tools::bench

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "figures.hpp"
#include "report.hpp"

#include <fmt/format.h>
#include <iterator>

namespace tools::bench {
namespace {

constexpr const char *STATES[] = {"dirty", "clean", "uncached"};

std::string columns(const cell *found) {
    if (!found)
        return fmt::format("{:24}", "");
    return fmt::format(" {:>6} {:>5} {:>5} {:>4}", brief(found->call_ns.p50),
                       brief(found->call_ns.p99), brief(found->gigabytes_per_second()),
                       found->ratio > 0 ? fmt::format("{:.2f}", found->ratio) : "-");
}

void lines_of(std::string &text, const results &all, const std::string &instructions,
              const std::string &call) {
    auto out = std::back_inserter(text);
    fmt::format_to(out, "\n{}, {}\n{:8}", instructions, occasion(call), "");
    for (const char *state : STATES)
        fmt::format_to(out, " {:->23}", fmt::format(" {} --", state));
    fmt::format_to(out, "\n{:8}", "size");
    for (std::size_t state = 0; state < std::size(STATES); ++state)
        fmt::format_to(out, " {:>6} {:>5} {:>5} {:>4}", "ns p50", "p99", "GB/s", "/raw");
    text += '\n';
    for (const std::size_t bytes : all.how.sizes) {
        fmt::format_to(out, "{:8}", size_name(bytes));
        for (const char *state : STATES)
            text += columns(find(all, instructions, call, state, bytes));
        text += '\n';
    }
}

} // namespace

std::string as_table(const results &all) {
    std::string text;
    auto out = std::back_inserter(text);
    fmt::format_to(out, "{}, {}, {} bytes a line\n", all.where.cpu, all.where.kernel,
                   all.where.line_bytes);
    fmt::format_to(out,
                   "ns for one line, of which the call has many, to its completion; reading the\n"
                   "clock costs {} ns of each. /raw: to a bare loop, the median of pairs.\n",
                   brief(all.where.clock_ns));
    for (const auto &[instructions, call] : ways(all))
        lines_of(text, all, instructions, call);
    if (!all.batches.empty())
        fmt::format_to(out,
                       "\nscattered dirty lines, {}, before a Read\n{:>8} {:>14} {:>14} {:>9}\n",
                       all.instructions, "ranges", "one call, ns", "a call each", "faster");
    for (const batch &each : all.batches)
        fmt::format_to(out, "{:>8} {:>14} {:>14} {:>8.1f}x\n", each.segments,
                       brief(each.one_call_ns.p50), brief(each.calls_each_ns.p50), each.ratio);
    if (all.coherent_ns.count > 0)
        fmt::format_to(out, "\na call with one range on a coherent device: {} ns (p99 {})\n",
                       brief(all.coherent_ns.p50), brief(all.coherent_ns.p99));
    if (all.interrupted)
        text += "\nInterrupted: this is what was measured until then.\n";
    return text;
}

} // namespace tools::bench

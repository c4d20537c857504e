// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "format.hpp"
#include "report.hpp"

#include <fmt/core.h>
#include <iterator>

namespace tools::bench {
namespace {

constexpr double MIN_RATIO = 1.05;

/// "slower" or "faster" if the medians differ by more than the scatter of either run and by
/// MIN_RATIO.
const char *compare_summaries(const summary &now, const summary &old) {
    if (now.p50 > old.p90 && now.p50 > old.p50 * MIN_RATIO)
        return "slower";
    if (now.p90 < old.p50 && now.p50 * MIN_RATIO < old.p50)
        return "faster";
    return "same";
}

struct comparison_counts {
    std::size_t slower = 0, faster = 0, all = 0;
};

/// The change of the bare loop, which is that of the machine; 0 if there is none.
double raw_ratio(const summary &now, const summary &old) {
    return now.count > 0 && old.count > 0 && old.p50 > 0 ? now.p50 / old.p50 : 0;
}

void add_row(std::string &text, comparison_counts &counts, const std::string &name,
             const summary &now, const summary &old, double raw) {
    if (now.count == 0 || old.count == 0 || !(old.p50 > 0))
        return;
    const double machine_ratio = raw > 0 ? raw : 1;
    const std::string change =
        compare_summaries(now, {old.count, old.p50 * machine_ratio, old.p90 * machine_ratio,
                                old.p99 * machine_ratio});
    ++counts.all;
    counts.slower += change == "slower" ? 1U : 0U;
    counts.faster += change == "faster" ? 1U : 0U;
    text += fmt::format("{:38} {:>8} {:>8} {:>6.2f} {:>6} {:>8}\n", name, format_number(old.p50),
                        format_number(now.p50), now.p50 / old.p50, format_number(raw), change);
}

} // namespace

std::string as_comparison(const measurements &results, const measurements &baseline) {
    std::string text =
        fmt::format("\ncompared with {} of {}\n", baseline.host.library, baseline.time);
    if (baseline.host.cpu != results.host.cpu || baseline.host.kernel != results.host.kernel)
        text += fmt::format("Warning: measured on another machine or kernel: {}, {}\n",
                            baseline.host.cpu, baseline.host.kernel);
    text += fmt::format("{:38} {:>8} {:>8} {:>6} {:>6}\n", "p50 of a call, or of one line in it",
                        "old, ns", "new, ns", "ratio", "bare");
    comparison_counts counts;
    add_row(text, counts, "a call on a coherent device", results.coherent_call_ns,
            baseline.coherent_call_ns, 0);
    for (const batch &current : results.batches)
        for (const batch &previous : baseline.batches)
            if (current.segments == previous.segments)
                add_row(text, counts, fmt::format("{} ranges in one call", current.segments),
                        current.one_call_ns, previous.one_call_ns, 0);
    for (const sync_timing &current : results.timings)
        if (const sync_timing *previous = find(baseline, current.instructions, current.call,
                                               current.line_state, current.bytes))
            add_row(text, counts,
                    fmt::format("{} {}, {}, {}", current.instructions, current.call,
                                current.line_state, size_name(current.bytes)),
                    current.ns_per_line, previous->ns_per_line,
                    raw_ratio(current.raw_ns_per_line, previous->raw_ns_per_line));
    text += "bare: ratio of the bare loop, which is due to the machine, not the library.\n";
    text += fmt::format("in total: {} slower, {} faster, of {}\n", counts.slower, counts.faster,
                        counts.all);
    return text;
}

} // namespace tools::bench

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The text that `coherdma bench --compare` prints: each current time against that of an older run.

#include "format.hpp"
#include "report.hpp"

#include <fmt/core.h>
#include <iterator>

namespace tools::bench {
namespace {

/// A median that changes by less than this factor counts as the same.
constexpr double MIN_CHANGE = 1.05;

/// "slower" or "faster" if the medians differ by MIN_CHANGE and by more than the scatter: the
/// slower median exceeds the 90th percentile of the faster run. Otherwise "same".
const char *classify_change(const summary &current, const summary &baseline) {
    if (current.p50 > baseline.p90 && current.p50 > baseline.p50 * MIN_CHANGE)
        return "slower";
    if (current.p90 < baseline.p50 && current.p50 * MIN_CHANGE < baseline.p50)
        return "faster";
    return "same";
}

struct row_counts {
    std::size_t slower = 0, faster = 0, total = 0;
};

bool are_both_measured(const summary &current, const summary &baseline) {
    return current.num_samples > 0 && baseline.num_samples > 0 && baseline.p50 > 0;
}

/// How much slower (above 1) or faster the machine itself has become, as the raw loop, which is not
/// the library's code, shows; 0 if unknown.
double machine_factor(const sync_timing &current, const sync_timing &baseline) {
    return are_both_measured(current.raw_loop_ns_per_line, baseline.raw_loop_ns_per_line)
               ? current.raw_loop_ns_per_line.p50 / baseline.raw_loop_ns_per_line.p50
               : 0;
}

/// Appends a row to the text if both runs measured it. The change that it names is that of the
/// library: the baseline is first multiplied by machine_factor, unless that is 0.
void add_row(std::string &text, row_counts &counts, const std::string &row_name,
             const summary &current, const summary &baseline, double machine_factor = 0) {
    if (!are_both_measured(current, baseline))
        return;
    const double scale = machine_factor > 0 ? machine_factor : 1;
    const summary expected = {baseline.num_samples, baseline.p50 * scale, baseline.p90 * scale,
                              baseline.p99 * scale};
    const std::string change = classify_change(current, expected);
    ++counts.total;
    counts.slower += change == "slower" ? 1U : 0U;
    counts.faster += change == "faster" ? 1U : 0U;
    text += fmt::format("{:38} {:>8} {:>8} {:>6.2f} {:>6} {:>8}\n", row_name,
                        format_number(baseline.p50), format_number(current.p50),
                        current.p50 / baseline.p50, format_number(machine_factor), change);
}

} // namespace

std::string as_comparison(const measurements &current, const measurements &baseline) {
    std::string text = fmt::format("\ncompared with {} of {}\n", baseline.machine.library_version,
                                   baseline.utc_time);
    if (baseline.machine.cpu_model != current.machine.cpu_model ||
        baseline.machine.kernel != current.machine.kernel)
        text += fmt::format("Warning: measured on another machine or kernel: {}, {}\n",
                            baseline.machine.cpu_model, baseline.machine.kernel);
    text += fmt::format("{:38} {:>8} {:>8} {:>6} {:>6}\n", "p50 of a call, or of one line in it",
                        "old, ns", "new, ns", "ratio", "raw");
    row_counts counts;
    add_row(text, counts, "a call on a coherent device", current.coherent_call_ns,
            baseline.coherent_call_ns);
    for (const scattered_timing &timing : current.scattered)
        for (const scattered_timing &previous : baseline.scattered)
            if (timing.num_ranges == previous.num_ranges)
                add_row(text, counts, fmt::format("{} ranges in one call", timing.num_ranges),
                        timing.one_call_ns, previous.one_call_ns);
    for (const sync_timing &timing : current.timings)
        if (const sync_timing *previous = find_timing(baseline, timing.instructions, timing.call,
                                                      timing.line_state, timing.bytes))
            add_row(text, counts,
                    fmt::format("{} {}, {}, {}", timing.instructions, format_call(timing.call),
                                timing.line_state, format_size(timing.bytes)),
                    timing.ns_per_line, previous->ns_per_line, machine_factor(timing, *previous));
    text += "raw: ratio of the raw loop, which is due to the machine, not the library.\n";
    text += fmt::format("in total: {} slower, {} faster, of {}\n", counts.slower, counts.faster,
                        counts.total);
    return text;
}

} // namespace tools::bench

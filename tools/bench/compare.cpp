// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "figures.hpp"
#include "report.hpp"

#include <fmt/format.h>
#include <iterator>

namespace tools::bench {
namespace {

constexpr double MATTERS = 1.05;

/// By more than the ordinary scatter of either run, and by enough to matter.
const char *judge(const summary &now, const summary &old) {
    if (now.p50 > old.p90 && now.p50 > old.p50 * MATTERS)
        return "slower";
    if (now.p90 < old.p50 && now.p50 * MATTERS < old.p50)
        return "faster";
    return "same";
}

struct count {
    std::size_t slower = 0, faster = 0, all = 0;
};

/// What was measured beside it both times says how much of the change is the machine's.
double bare_ratio(const summary &now, const summary &old) {
    return now.count > 0 && old.count > 0 && old.p50 > 0 ? now.p50 / old.p50 : 0;
}

void line(std::string &text, count &sum, const std::string &what, const summary &now,
          const summary &old, double bare) {
    if (now.count == 0 || old.count == 0 || !(old.p50 > 0))
        return;
    const double machine = bare > 0 ? bare : 1;
    const std::string verdict =
        judge(now, {old.count, old.p50 * machine, old.p90 * machine, old.p99 * machine});
    ++sum.all;
    sum.slower += verdict == "slower" ? 1U : 0U;
    sum.faster += verdict == "faster" ? 1U : 0U;
    fmt::format_to(std::back_inserter(text), "{:38} {:>8} {:>8} {:>6.2f} {:>6} {:>8}\n", what,
                   brief(old.p50), brief(now.p50), now.p50 / old.p50, brief(bare), verdict);
}

} // namespace

std::string as_comparison(const results &all, const results &old) {
    std::string text = fmt::format("\nwith {} of {}\n", old.where.library, old.when);
    auto out = std::back_inserter(text);
    if (old.where.cpu != all.where.cpu || old.where.kernel != all.where.kernel)
        fmt::format_to(out, "That was another machine: {}, {}\n", old.where.cpu, old.where.kernel);
    fmt::format_to(out, "{:38} {:>8} {:>8} {:>6} {:>6}\n", "p50, of a call or of one line in it",
                   "old, ns", "new, ns", "ratio", "bare");
    count sum;
    line(text, sum, "a call on a coherent device", all.coherent_ns, old.coherent_ns, 0);
    for (const batch &each : all.batches)
        for (const batch &other : old.batches)
            if (each.segments == other.segments)
                line(text, sum, fmt::format("{} ranges in one call", each.segments),
                     each.one_call_ns, other.one_call_ns, 0);
    for (const cell &each : all.cells)
        if (const cell *other = find(old, each.instructions, each.call, each.state, each.bytes))
            line(text, sum,
                 fmt::format("{} {}, {}, {}", each.instructions, each.call, each.state,
                             size_name(each.bytes)),
                 each.call_ns, other->call_ns, bare_ratio(each.raw_ns, other->raw_ns));
    text += "bare: of a bare loop; what both have in common is the machine, not the library.\n";
    fmt::format_to(out, "verdict: {} slower, {} faster, of {}\n", sum.slower, sum.faster, sum.all);
    return text;
}

} // namespace tools::bench

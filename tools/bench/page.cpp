// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "figures.hpp"
#include "plot.hpp"
#include "report.hpp"
#include "style.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>

namespace tools::bench {
namespace {

constexpr std::pair<const char *, const char *> STATES[] = {
    {"dirty", "one"}, {"clean", "two"}, {"uncached", "three"}};

/// The same scale for all plots of time, so that they can be compared.
std::pair<double, double> scale(const std::vector<cell> &cells) {
    double low = 1e9, high = 0;
    for (const cell &each : cells) {
        low = std::min(low, each.call_ns.p50);
        high = std::max(high, each.call_ns.p90);
    }
    return {low / 1.3, high * 1.2};
}

std::string times(const results &all) {
    const auto [low, high] = scale(all.cells);
    std::string html = "<div class=plots>\n";
    for (const auto &[instructions, call] : ways(all)) {
        plot one;
        one.title = instructions + ", " + occasion(call);
        one.described = "Nanoseconds for a line over size: " + one.title;
        one.x_unit = "bytes in the call";
        one.y_unit = "ns for one line";
        one.low = low;
        one.high = high;
        for (const std::size_t bytes : all.how.sizes)
            one.x_ticks.emplace_back(bytes, size_name(bytes));
        for (const auto &[state, color] : STATES) {
            series line{state, color, {}};
            for (const std::size_t bytes : all.how.sizes)
                if (const cell *found = find(all, instructions, call, state, bytes))
                    line.points.push_back(
                        {static_cast<double>(bytes), found->call_ns.p50, found->call_ns.p90});
            one.lines.push_back(std::move(line));
        }
        html += draw(one);
    }
    return html + "</div>\n";
}

std::string batches(const results &all) {
    plot one;
    one.title = "Scattered dirty lines, " + all.instructions + ", before a Read";
    one.described = "Nanoseconds for a range over the number of ranges";
    one.x_unit = "ranges";
    one.y_unit = "ns for one range";
    one.low = 1e9;
    one.high = 0;
    one.lines = {{"a call each", "one", {}}, {"one call", "two", {}}};
    for (const batch &each : all.batches) {
        const auto n = static_cast<double>(each.segments);
        one.x_ticks.emplace_back(n, std::to_string(each.segments));
        one.lines[0].points.push_back({n, each.calls_each_ns.p50 / n, each.calls_each_ns.p90 / n});
        one.lines[1].points.push_back({n, each.one_call_ns.p50 / n, each.one_call_ns.p90 / n});
        one.low = std::min({one.low, each.one_call_ns.p50 / n, each.calls_each_ns.p50 / n});
        one.high = std::max({one.high, each.one_call_ns.p90 / n, each.calls_each_ns.p90 / n});
    }
    one.low /= 1.3;
    one.high *= 1.2;
    std::string html =
        "<div class=plots>\n" + draw(one) +
        "<div><div class=scroll><table><thead><tr><th class=name>ranges</th>"
        "<th>one call, ns</th><th>a call each, ns</th><th>faster</th></tr></thead>\n";
    for (const batch &each : all.batches)
        fmt::format_to(std::back_inserter(html),
                       "<tr><th class=name>{}</th><td>{}</td><td>{}</td><td>{:.1f} ×</td></tr>\n",
                       each.segments, brief(each.one_call_ns.p50), brief(each.calls_each_ns.p50),
                       each.ratio);
    return html + "</table></div></div></div>\n";
}

/// A table over sizes; entry gives what stands in a cell, tags included.
template <typename Entry>
std::string over_sizes(const results &all, Entry entry) {
    std::string html = "<div class=scroll><table><thead><tr><th class=name>instructions</th>"
                       "<th class=name>state of the lines</th>";
    for (const std::size_t bytes : all.how.sizes)
        html += "<th>" + size_name(bytes) + "</th>";
    html += "</tr></thead>\n";
    for (const auto &[instructions, call] : ways(all)) {
        for (const auto &[state, color] : STATES) {
            const bool first = state == STATES[0].first;
            html += first ? "<tr><th class=name>" + escaped(instructions + ", " + occasion(call)) +
                                "</th>"
                          : "<tr><th class=name></th>";
            html += std::string("<th class=name>") + state + "</th>";
            for (const std::size_t bytes : all.how.sizes) {
                const cell *found = find(all, instructions, call, state, bytes);
                html += found ? entry(*found) : "<td>–</td>";
            }
            html += "</tr>\n";
        }
    }
    return html + "</table></div>\n";
}

std::string ratio_entry(const cell &each) {
    if (!(each.ratio > 0))
        return "<td class=soft>–</td>";
    const char *kind = each.ratio > 1.03 ? "bad" : each.ratio < 0.97 ? "good" : "soft";
    return fmt::format("<td class={}>{:.2f}</td>", kind, each.ratio);
}

std::string figures_entry(const cell &each) {
    return fmt::format("<td>{} / {} / {}</td>", brief(each.call_ns.p50), brief(each.call_ns.p90),
                       brief(each.call_ns.p99));
}

std::string fact(const std::string &figure, const std::string &words) {
    return "<div><b>" + escaped(figure) + "</b><span>" + escaped(words) + "</span></div>\n";
}

/// What most will have come for.
std::string facts(const results &all) {
    std::string html = "<div class=facts>\n" +
                       fact(all.instructions, "the instructions that sync uses on this CPU");
    const cell *large = nullptr;
    for (const std::size_t bytes : all.how.sizes)
        if (const cell *found = find(all, all.instructions, "read", "dirty", bytes))
            large = found;
    if (large)
        html += fact(
            fmt::format("{} GB/s", brief(large->gigabytes_per_second())),
            fmt::format("of dirty lines before a Read, {} in a call", size_name(large->bytes)));
    if (!all.batches.empty())
        html += fact(fmt::format("{:.1f} ×", all.batches.back().ratio),
                     fmt::format("as fast: {} scattered ranges in one call, against a call each",
                                 all.batches.back().segments));
    if (all.coherent_ns.count > 0)
        html += fact(brief(all.coherent_ns.p50) + " ns",
                     "a call with one range, where the device is coherent");
    return html + "</div>\n";
}

std::string footer(const results &all) {
    std::string sizes;
    for (const std::size_t bytes : all.how.sizes)
        sizes += (sizes.empty() ? "" : ", ") + size_name(bytes);
    const machine &where = all.where;
    const std::pair<const char *, std::string> rows[] = {
        {"measured", all.when},
        {"CPU", fmt::format("{} ({}, {} online)", where.cpu, where.architecture, where.cpus)},
        {"cache line", fmt::format("{} bytes", where.line_bytes)},
        {"governor", where.governor.empty() ? "not known" : where.governor},
        {"kernel", where.kernel},
        {"time from", where.time_source},
        {"reading it costs", brief(where.clock_ns) + " ns, which are in every figure"},
        {"options", "--sizes: " + sizes + (all.how.quick ? "; --quick" : "")},
        {"program", "coherdma bench " + where.library},
    };
    std::string html = "<footer><dl>\n";
    for (const auto &[name, value] : rows)
        html += std::string("<dt>") + name + "</dt><dd>" + escaped(value) + "</dd>\n";
    return html + "</dl></footer>\n";
}

} // namespace

std::string as_page(const results &all) {
    std::string html = "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>\n"
                       "<meta name=viewport content=\"width=device-width\">\n"
                       "<title>What a sync costs</title>\n<style>";
    html += STYLE;
    html += "</style></head><body>\n<h1>What a sync costs</h1>\n<p class=soft>" +
            escaped(all.where.cpu + ", " + all.where.kernel) + "</p>\n";
    if (all.interrupted)
        html += "<p class=warning>Interrupted: this is what was measured until then.</p>\n";
    html += facts(all);
    if (!all.cells.empty())
        html += "<h2>Time for one line</h2>\n<p>Curves are medians, the bands reach up to the 90th "
                "percentile. Both axes are logarithmic, and all plots have the same scale.</p>\n" +
                times(all);
    if (!all.batches.empty())
        html += "<h2>One call or many</h2>\n<p>A call waits once, at its end, however many ranges "
                "it is given.</p>\n" +
                batches(all);
    if (!all.cells.empty())
        html +=
            "<h2>Against a bare loop</h2>\n<p>The time of a call to that of nothing but the "
            "instruction in a loop, the median of pairs. 1.00 is as fast as it can be. A call also "
            "checks its ranges and has its fences, two of them around a Write; that shows where "
            "there is little else to do.</p>\n" +
            over_sizes(all, ratio_entry) +
            "<details><summary>All times: ns for one line, 50th / 90th / 99th "
            "percentile</summary>\n" +
            over_sizes(all, figures_entry) + "</details>\n";
    return html + footer(all) + "</body></html>\n";
}

} // namespace tools::bench

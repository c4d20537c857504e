// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "format.hpp"
#include "plot.hpp"
#include "report.hpp"
#include "style.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <iterator>

namespace tools::bench {
namespace {

constexpr struct {
    const char *name, *color; ///< color: CSS class
} LINE_STATES[] = {{"dirty", "color1"}, {"clean", "color2"}, {"uncached", "color3"}};

struct value_range {
    double low, high;
};

/// The range of all times, so that all plots have the same scale.
value_range y_range(const std::vector<sync_timing> &timings) {
    double low = 1e9, high = 0;
    for (const sync_timing &timing : timings) {
        low = std::min(low, timing.ns_per_line.p50);
        high = std::max(high, timing.ns_per_line.p90);
    }
    return {low / 1.3, high * 1.2};
}

std::string draw_time_plots(const measurements &results) {
    const auto [y_low, y_high] = y_range(results.timings);
    std::string html = "<div class=plots>\n";
    for (const auto &[instructions, call] : measured_calls(results)) {
        plot time_plot;
        time_plot.title = instructions + ", " + format_call(call);
        time_plot.description = "Nanoseconds for a line over size: " + time_plot.title;
        time_plot.x_unit = "bytes in the call";
        time_plot.y_unit = "ns for one line";
        time_plot.y_low = y_low;
        time_plot.y_high = y_high;
        for (const std::size_t bytes : results.options.sizes)
            time_plot.x_ticks.push_back({static_cast<double>(bytes), size_name(bytes)});
        for (const auto &[state, color] : LINE_STATES) {
            series curve{state, color, {}};
            for (const std::size_t bytes : results.options.sizes)
                if (const sync_timing *timing = find(results, instructions, call, state, bytes))
                    curve.points.push_back({static_cast<double>(bytes), timing->ns_per_line.p50,
                                            timing->ns_per_line.p90});
            time_plot.curves.push_back(std::move(curve));
        }
        html += draw(time_plot);
    }
    return html + "</div>\n";
}

std::string draw_batches(const measurements &results) {
    plot batch_plot;
    batch_plot.title = "Scattered dirty lines, " + results.batch_instructions + ", before a Read";
    batch_plot.description = "Nanoseconds for a range over the number of ranges";
    batch_plot.x_unit = "ranges";
    batch_plot.y_unit = "ns for one range";
    batch_plot.y_low = 1e9;
    batch_plot.y_high = 0;
    batch_plot.curves = {{"a call each", "color1", {}}, {"one call", "color2", {}}};
    for (const batch &b : results.batches) {
        const auto num_ranges = static_cast<double>(b.segments);
        batch_plot.x_ticks.push_back({num_ranges, std::to_string(b.segments)});
        batch_plot.curves[0].points.push_back(
            {num_ranges, b.calls_each_ns.p50 / num_ranges, b.calls_each_ns.p90 / num_ranges});
        batch_plot.curves[1].points.push_back(
            {num_ranges, b.one_call_ns.p50 / num_ranges, b.one_call_ns.p90 / num_ranges});
        batch_plot.y_low = std::min(
            {batch_plot.y_low, b.one_call_ns.p50 / num_ranges, b.calls_each_ns.p50 / num_ranges});
        batch_plot.y_high = std::max(
            {batch_plot.y_high, b.one_call_ns.p90 / num_ranges, b.calls_each_ns.p90 / num_ranges});
    }
    batch_plot.y_low /= 1.3;
    batch_plot.y_high *= 1.2;
    std::string html =
        "<div class=plots>\n" + draw(batch_plot) +
        "<div><div class=scroll><table><thead><tr><th class=name>ranges</th>"
        "<th>one call, ns</th><th>a call each, ns</th><th>faster</th></tr></thead>\n";
    for (const batch &b : results.batches)
        html += fmt::format(
            "<tr><th class=name>{}</th><td>{}</td><td>{}</td><td>{:.1f} ×</td></tr>\n", b.segments,
            format_number(b.one_call_ns.p50), format_number(b.calls_each_ns.p50), b.ratio);
    return html + "</table></div></div></div>\n";
}

/// A table with a column per size; format_entry returns the HTML of a cell.
template <typename Entry>
std::string table_over_sizes(const measurements &results, Entry format_entry) {
    std::string html = "<div class=scroll><table><thead><tr><th class=name>instructions</th>"
                       "<th class=name>state of the lines</th>";
    for (const std::size_t bytes : results.options.sizes)
        html += "<th>" + size_name(bytes) + "</th>";
    html += "</tr></thead>\n";
    for (const auto &[instructions, call] : measured_calls(results)) {
        for (const auto &[state, color] : LINE_STATES) {
            const bool is_first = state == LINE_STATES[0].name;
            html += is_first ? "<tr><th class=name>" +
                                   escape_html(instructions + ", " + format_call(call)) + "</th>"
                             : "<tr><th class=name></th>";
            html += std::string("<th class=name>") + state + "</th>";
            for (const std::size_t bytes : results.options.sizes) {
                const sync_timing *timing = find(results, instructions, call, state, bytes);
                html += timing ? format_entry(*timing) : "<td>–</td>";
            }
            html += "</tr>\n";
        }
    }
    return html + "</table></div>\n";
}

std::string format_ratio(const sync_timing &timing) {
    if (!(timing.ratio > 0))
        return "<td class=soft>–</td>";
    const char *css_class = timing.ratio > 1.03 ? "bad" : timing.ratio < 0.97 ? "good" : "soft";
    return fmt::format("<td class={}>{:.2f}</td>", css_class, timing.ratio);
}

std::string format_percentiles(const sync_timing &timing) {
    return fmt::format("<td>{} / {} / {}</td>", format_number(timing.ns_per_line.p50),
                       format_number(timing.ns_per_line.p90),
                       format_number(timing.ns_per_line.p99));
}

std::string format_fact(const std::string &figure, const std::string &words) {
    return "<div><b>" + escape_html(figure) + "</b><span>" + escape_html(words) + "</span></div>\n";
}

/// The main results.
std::string format_facts(const measurements &results) {
    std::string html =
        "<div class=facts>\n" +
        format_fact(results.batch_instructions, "the instructions that sync uses on this CPU");
    const sync_timing *large = nullptr;
    for (const std::size_t bytes : results.options.sizes)
        if (const sync_timing *timing =
                find(results, results.batch_instructions, "read", "dirty", bytes))
            large = timing;
    if (large)
        html += format_fact(
            fmt::format("{} GB/s", format_number(large->gigabytes_per_second())),
            fmt::format("of dirty lines before a Read, {} in a call", size_name(large->bytes)));
    if (!results.batches.empty())
        html +=
            format_fact(fmt::format("{:.1f} ×", results.batches.back().ratio),
                        fmt::format("as fast: {} scattered ranges in one call, against a call each",
                                    results.batches.back().segments));
    if (results.coherent_call_ns.count > 0)
        html += format_fact(format_number(results.coherent_call_ns.p50) + " ns",
                            "a call with one range, where the device is coherent");
    return html + "</div>\n";
}

std::string format_footer(const measurements &results) {
    std::string sizes;
    for (const std::size_t bytes : results.options.sizes)
        sizes += (sizes.empty() ? "" : ", ") + size_name(bytes);
    const machine &machine_info = results.host;
    const struct {
        const char *name;
        std::string value;
    } rows[] = {
        {"measured", results.time},
        {"CPU", fmt::format("{} ({}, {} online)", machine_info.cpu, machine_info.architecture,
                            machine_info.cpus)},
        {"cache line", fmt::format("{} bytes", machine_info.line_bytes)},
        {"governor", machine_info.governor.empty() ? "not known" : machine_info.governor},
        {"kernel", machine_info.kernel},
        {"time from", machine_info.time_source},
        {"reading it costs",
         format_number(machine_info.clock_ns) + " ns, which are in every figure"},
        {"options", "--sizes: " + sizes + (results.options.quick ? "; --quick" : "")},
        {"program", "coherdma bench " + machine_info.library},
    };
    std::string html = "<footer><dl>\n";
    for (const auto &[name, value] : rows)
        html += std::string("<dt>") + name + "</dt><dd>" + escape_html(value) + "</dd>\n";
    return html + "</dl></footer>\n";
}

} // namespace

std::string as_html(const measurements &results) {
    std::string html = "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>\n"
                       "<meta name=viewport content=\"width=device-width\">\n"
                       "<title>What a sync costs</title>\n<style>";
    html += STYLE;
    html += "</style></head><body>\n<h1>What a sync costs</h1>\n<p class=soft>" +
            escape_html(results.host.cpu + ", " + results.host.kernel) + "</p>\n";
    if (results.interrupted)
        html += "<p class=warning>Interrupted: these are the results so far.</p>\n";
    html += format_facts(results);
    if (!results.timings.empty())
        html += "<h2>Time for one line</h2>\n<p>Curves are medians, the bands reach up to the 90th "
                "percentile. Both axes are logarithmic, and all plots have the same scale.</p>\n" +
                draw_time_plots(results);
    if (!results.batches.empty())
        html += "<h2>One call or many</h2>\n<p>A call waits once, at its end, however many ranges "
                "it is given.</p>\n" +
                draw_batches(results);
    if (!results.timings.empty())
        html +=
            "<h2>Against a bare loop</h2>\n<p>The time of a call to that of nothing but the "
            "instruction in a loop, the median of pairs. 1.00 is as fast as it can be. A call also "
            "checks its ranges and has its fences, two of them around a Write; that shows where "
            "there is little else to do.</p>\n" +
            table_over_sizes(results, format_ratio) +
            "<details><summary>All times: ns for one line, 50th / 90th / 99th "
            "percentile</summary>\n" +
            table_over_sizes(results, format_percentiles) + "</details>\n";
    return html + format_footer(results) + "</body></html>\n";
}

} // namespace tools::bench

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "html.hpp"
#include "format.hpp"
#include "plot.hpp"
#include "report.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <iterator>

namespace tools::bench {
namespace {

constexpr const char *STYLE = R"(
.facts, .plots { display: grid; gap: 1rem; }
.facts { grid-template-columns: repeat(auto-fit, minmax(200px, 1fr)); margin: 1.6rem 0; }
.facts div { padding: .9rem 1.1rem; }
.facts b { display: block; font-size: 1.6rem; line-height: 1.25; font-weight: 650; }
.facts span { color: var(--soft); font-size: .88rem; line-height: 1.35; display: block; }
.plots { grid-template-columns: repeat(auto-fit, minmax(min(380px, 100%), 1fr)); }
figure { margin: 0; padding: .8rem .6rem .4rem; max-width: 570px; }
figcaption { font-weight: 600; padding: 0 .5rem; } svg { display: block; width: 100%; }
svg text { font: 12px system-ui, sans-serif; fill: var(--soft); }
svg text.label { font-weight: 600; fill: currentColor; }
.grid { stroke: var(--line); stroke-width: 1; }
.color1 { color: var(--color1); } .color2 { color: var(--color2); } .color3 { color: var(--color3); }
.curve { fill: none; stroke: currentColor; stroke-width: 2; stroke-linejoin: round; }
.band { fill: currentColor; opacity: .13; }
.dot { fill: currentColor; stroke: var(--card); stroke-width: 1.5; }
td.good { color: var(--good); } td.bad { color: var(--bad); font-weight: 650; }
.facts div { background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
@media print { .facts div { break-inside: avoid; } }
)";

/// CSS classes, by the index in LINE_STATES.
constexpr const char *LINE_STATE_COLORS[] = {"color1", "color2", "color3"};
static_assert(std::size(LINE_STATE_COLORS) == std::size(LINE_STATES));

/// Makes the y axis reach from the lowest to the highest of these values, with some room.
void set_y_limits(plot &plot, double lowest, double highest) {
    plot.y_low = lowest / 1.3;
    plot.y_high = highest * 1.2;
}

/// A plot for each call and its instructions, with a curve per state of the lines. All have the
/// same scale.
std::string draw_time_plots(const measurements &results) {
    double lowest = 1e9, highest = 0;
    for (const sync_timing &timing : results.timings) {
        lowest = std::min(lowest, timing.ns_per_line.p50);
        highest = std::max(highest, timing.ns_per_line.p90);
    }
    std::string html = "<div class=plots>\n";
    for (const auto &[instructions, call] : list_measured_calls(results)) {
        plot time_plot;
        time_plot.title = instructions + ", " + format_occasion(call);
        time_plot.description = "Nanoseconds for a line over size: " + time_plot.title;
        time_plot.x_unit = "bytes in the call";
        time_plot.y_unit = "ns for one line";
        set_y_limits(time_plot, lowest, highest);
        for (const std::size_t bytes : results.options.sizes)
            time_plot.x_ticks.push_back({static_cast<double>(bytes), format_size(bytes)});
        for (std::size_t i = 0; i < std::size(LINE_STATES); ++i) {
            curve state_curve{LINE_STATES[i], LINE_STATE_COLORS[i], {}};
            for (const std::size_t bytes : results.options.sizes)
                if (const sync_timing *timing =
                        find_timing(results, instructions, call, LINE_STATES[i], bytes))
                    state_curve.points.push_back({static_cast<double>(bytes),
                                                  timing->ns_per_line.p50,
                                                  timing->ns_per_line.p90});
            time_plot.curves.push_back(std::move(state_curve));
        }
        html += draw_plot(time_plot);
    }
    return html + "</div>\n";
}

/// For ranges of one dirty line each, scattered in memory: the time for one of them over their
/// number, with one call for all, and with a call for each.
std::string draw_scattered_plot(const measurements &results) {
    plot scattered_plot;
    scattered_plot.title =
        "Scattered dirty lines, " + results.default_instructions + ", before a Read";
    scattered_plot.description = "Nanoseconds for a range over the number of ranges";
    scattered_plot.x_unit = "ranges";
    scattered_plot.y_unit = "ns for one range";
    curve call_per_range{"a call each", "color1", {}}, one_call{"one call", "color2", {}};
    double lowest = 1e9, highest = 0;
    for (const scattered_timing &timing : results.scattered) {
        const auto num_ranges = static_cast<double>(timing.num_ranges);
        scattered_plot.x_ticks.push_back({num_ranges, std::to_string(timing.num_ranges)});
        const auto add_point = [&](curve &curve, const summary &ns) {
            curve.points.push_back({num_ranges, ns.p50 / num_ranges, ns.p90 / num_ranges});
            lowest = std::min(lowest, ns.p50 / num_ranges);
            highest = std::max(highest, ns.p90 / num_ranges);
        };
        add_point(call_per_range, timing.call_per_range_ns);
        add_point(one_call, timing.one_call_ns);
    }
    set_y_limits(scattered_plot, lowest, highest);
    scattered_plot.curves = {std::move(call_per_range), std::move(one_call)};
    return draw_plot(scattered_plot);
}

std::string format_scattered_table(const measurements &results) {
    std::string html =
        "<div class=scroll><table><thead><tr><th class=name>ranges</th>"
        "<th>one call, ns</th><th>a call each, ns</th><th>faster</th></tr></thead>\n";
    for (const scattered_timing &timing : results.scattered)
        html +=
            fmt::format("<tr><th class=name>{}</th><td>{}</td><td>{}</td><td>{:.1f} ×</td></tr>\n",
                        timing.num_ranges, format_number(timing.one_call_ns.p50),
                        format_number(timing.call_per_range_ns.p50), timing.speedup);
    return html + "</table></div>\n";
}

/// A table with a column per size, and a row per call, instructions and state of the lines.
/// format_cell(timing) returns the HTML of a cell.
template <typename FormatCell>
std::string format_timing_table(const measurements &results, FormatCell format_cell) {
    std::string html = "<div class=scroll><table><thead><tr><th class=name>instructions</th>"
                       "<th class=name>state of the lines</th>";
    for (const std::size_t bytes : results.options.sizes)
        html += "<th>" + format_size(bytes) + "</th>";
    html += "</tr></thead>\n";
    for (const auto &[instructions, call] : list_measured_calls(results)) {
        // Only the first row of a call has its name.
        std::string row_name = escape_html(instructions + ", " + format_occasion(call));
        for (const char *line_state : LINE_STATES) {
            html +=
                "<tr><th class=name>" + row_name + "</th><th class=name>" + line_state + "</th>";
            for (const std::size_t bytes : results.options.sizes) {
                const sync_timing *timing =
                    find_timing(results, instructions, call, line_state, bytes);
                html += timing ? format_cell(*timing) : "<td>–</td>";
            }
            html += "</tr>\n";
            row_name.clear();
        }
    }
    return html + "</table></div>\n";
}

/// A cell with the time of the call by that of the raw loop: bad if slower, good if faster.
std::string format_ratio_cell(const sync_timing &timing) {
    const double ratio = timing.ratio_to_raw_loop;
    if (!(ratio > 0))
        return "<td class=soft>–</td>";
    const char *css_class = ratio > 1.03 ? "bad" : ratio < 0.97 ? "good" : "soft";
    return fmt::format("<td class={}>{:.2f}</td>", css_class, ratio);
}

std::string format_percentiles_cell(const sync_timing &timing) {
    return fmt::format("<td>{} / {} / {}</td>", format_number(timing.ns_per_line.p50),
                       format_number(timing.ns_per_line.p90),
                       format_number(timing.ns_per_line.p99));
}

/// A box with a large value and what it is.
std::string format_result_box(const std::string &value, const std::string &description) {
    return "<div><b>" + escape_html(value) + "</b><span>" + escape_html(description) +
           "</span></div>\n";
}

/// The main results as boxes.
std::string format_main_results(const measurements &results) {
    std::string html =
        "<div class=facts>\n" + format_result_box(results.default_instructions,
                                                  "the instructions that sync uses on this CPU");
    const sync_timing *last_size = nullptr; // the largest range, if they were given in order
    for (const std::size_t bytes : results.options.sizes)
        if (const sync_timing *timing = find_timing(results, results.default_instructions,
                                                    SYNC_BEFORE_READ, "dirty", bytes))
            last_size = timing;
    if (last_size)
        html += format_result_box(
            fmt::format("{} GB/s", format_number(last_size->gigabytes_per_second())),
            fmt::format("of dirty lines before a Read, {} in a call",
                        format_size(last_size->bytes)));
    if (!results.scattered.empty())
        html += format_result_box(
            fmt::format("{:.1f} ×", results.scattered.back().speedup),
            fmt::format("as fast: {} scattered ranges in one call, against a call each",
                        results.scattered.back().num_ranges));
    if (results.coherent_call_ns.num_samples > 0)
        html += format_result_box(format_number(results.coherent_call_ns.p50) + " ns",
                                  "a call with one range, where the device is coherent");
    return html + "</div>\n";
}

/// Where and how the results were measured.
std::string format_footer(const measurements &results) {
    std::string sizes;
    for (const std::size_t bytes : results.options.sizes)
        sizes += (sizes.empty() ? "" : ", ") + format_size(bytes);
    const machine_info &machine = results.machine;
    const struct {
        const char *name;
        std::string value;
    } rows[] = {
        {"measured", results.utc_time},
        {"CPU", fmt::format("{} ({}, {} online)", machine.cpu_model, machine.architecture,
                            machine.cpus_online)},
        {"cache line", fmt::format("{} bytes", machine.line_size)},
        {"governor", machine.governor.empty() ? "not known" : machine.governor},
        {"kernel", machine.kernel},
        {"time from", machine.time_source},
        {"reading it costs", format_number(machine.clock_read_ns) + " ns, which are in every time"},
        {"options", "--sizes: " + sizes + (results.options.quick ? "; --quick" : "")},
        {"program", "coherdma bench " + machine.library_version},
    };
    std::string html = "<footer><dl>\n";
    for (const auto &[name, value] : rows)
        html += std::string("<dt>") + name + "</dt><dd>" + escape_html(value) + "</dd>\n";
    return html + "</dl></footer>\n";
}

} // namespace

std::string as_html(const measurements &results) {
    std::string html = begin_page("What a sync costs", STYLE) + "<p class=soft>" +
                       escape_html(results.machine.cpu_model + ", " + results.machine.kernel) +
                       "</p>\n";
    if (results.interrupted)
        html += "<p class=warning>Interrupted: these are the results so far.</p>\n";
    html += format_main_results(results);
    if (!results.timings.empty())
        html += "<h2>Time for one line</h2>\n<p>Curves are medians, the bands reach up to the 90th "
                "percentile. Both axes are logarithmic, and all plots have the same scale.</p>\n" +
                draw_time_plots(results);
    if (!results.scattered.empty())
        html += "<h2>One call or many</h2>\n<p>A call waits once, at its end, however many ranges "
                "it is given.</p>\n<div class=plots>\n" +
                draw_scattered_plot(results) + "<div>" + format_scattered_table(results) +
                "</div></div>\n";
    if (!results.timings.empty())
        html +=
            "<h2>Against a raw loop</h2>\n<p>The time of a call to that of nothing but the "
            "instruction in a loop, the median of pairs. 1.00 is as fast as it can be. A call also "
            "checks its ranges and has its fences, two of them around a Write; that shows where "
            "there is little else to do.</p>\n" +
            format_timing_table(results, format_ratio_cell) +
            "<details><summary>All times: ns for one line, 50th / 90th / 99th "
            "percentile</summary>\n" +
            format_timing_table(results, format_percentiles_cell) + "</details>\n";
    return html + format_footer(results) + "</body></html>\n";
}

} // namespace tools::bench

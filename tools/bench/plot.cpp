// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "plot.hpp"

#include "html.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <iterator>

namespace tools::bench {
namespace {

// In units of the SVG's coordinates, whose origin is the upper left corner.
constexpr double WIDTH = 400, HEIGHT = 260;
constexpr double LEFT_MARGIN = 46, RIGHT_MARGIN = 84, TOP_MARGIN = 34, BOTTOM_MARGIN = 42;
constexpr double LABEL_HEIGHT = 15;

/// A logarithmic axis: maps values min..max to coordinates begin..end.
struct axis {
    double min, max, begin, end;
    [[nodiscard]] double to_coordinate(double value) const {
        const double log_range = std::log(max / min);
        const double fraction = log_range > 0 ? std::log(value / min) / log_range : 0.5;
        return begin + fraction * (end - begin);
    }
};

/// The values at which a logarithmic axis is labeled: 1, 2, 5, 10, 20 ..., or powers of ten for a
/// large range.
std::vector<double> tick_values(double low, double high) {
    const bool has_fine_ticks = high / low < 1000;
    std::vector<double> values;
    for (double decade = std::pow(10, std::floor(std::log10(low))); decade <= high; decade *= 10)
        for (const double step : {1.0, 2.0, 5.0})
            if ((has_fine_ticks || step == 1.0) && decade * step >= low * 0.999 &&
                decade * step <= high * 1.001)
                values.push_back(decade * step);
    return values;
}

/// Appends the horizontal lines, the labels of the ticks, and the units of both axes.
void draw_grid(std::string &svg, const plot &plot, const axis &x, const axis &y) {
    for (const double value : tick_values(plot.y_low, plot.y_high))
        svg += fmt::format("<line class=grid x1={:.1f} x2={:.1f} y1={:.1f} y2={:.1f} />"
                           "<text class=tick x={:.1f} y={:.1f} text-anchor=end>{:g}</text>\n",
                           x.begin, x.end, y.to_coordinate(value), y.to_coordinate(value),
                           x.begin - 6, y.to_coordinate(value) + 4, value);
    for (const auto &[value, label] : plot.x_ticks)
        svg += fmt::format("<text class=tick x={:.1f} y={:.1f} text-anchor=middle>{}</text>\n",
                           x.to_coordinate(value), y.begin + 16, escape_html(label));
    svg += fmt::format("<text class=unit x={:.1f} y={:.1f} text-anchor=middle>{}</text>\n",
                       (x.begin + x.end) / 2, HEIGHT - 6, escape_html(plot.x_unit));
    svg += fmt::format("<text class=unit x=4 y={:.1f}>{}</text>\n", TOP_MARGIN - 12,
                       escape_html(plot.y_unit));
}

/// Appends the curve, its points, and the band above it.
void draw_curve(std::string &svg, const curve &curve, const axis &x, const axis &y) {
    std::string line, band_bottom, band_top; // lists of coordinates; band_top from right to left
    for (const curve_point &point : curve.points) {
        const auto format_point = [&](double y_value) {
            return fmt::format("{:.1f},{:.1f} ", x.to_coordinate(point.x),
                               y.to_coordinate(y_value));
        };
        line += format_point(point.y);
        band_bottom += format_point(point.y);
        band_top.insert(0, format_point(std::max(point.band_high, point.y)));
    }
    svg += fmt::format("<g class={}>", curve.color);
    svg += fmt::format("<polygon class=band points=\"{}{}\"/>", band_bottom, band_top);
    svg += fmt::format("<polyline class=curve points=\"{}\"/>", line);
    for (const curve_point &point : curve.points)
        svg += fmt::format("<circle class=dot cx={:.1f} cy={:.1f} r=3 />", x.to_coordinate(point.x),
                           y.to_coordinate(point.y));
    svg += "</g>\n";
}

/// Appends the label of each curve at its right end. Labels that would overlap are moved apart:
/// first down, then up as far as the plot's bottom requires.
void draw_labels(std::string &svg, const plot &plot, const axis &x, const axis &y) {
    struct label {
        double y_position; // grows downward
        const curve *labeled;
    };
    std::vector<label> labels;
    for (const curve &curve : plot.curves)
        if (!curve.points.empty())
            labels.push_back({y.to_coordinate(curve.points.back().y), &curve});
    std::sort(labels.begin(), labels.end(),
              [](const label &a, const label &b) { return a.y_position < b.y_position; });
    double above = TOP_MARGIN - LABEL_HEIGHT;
    for (auto it = labels.begin(); it != labels.end(); ++it)
        above = it->y_position = std::max(it->y_position, above + LABEL_HEIGHT);
    double below = y.begin - 5 + LABEL_HEIGHT; // clear of the text below the axis
    for (auto it = labels.rbegin(); it != labels.rend(); ++it)
        below = it->y_position = std::min(it->y_position, below - LABEL_HEIGHT);
    for (const auto &[y_position, labeled] : labels)
        svg += fmt::format("<text class=\"label {}\" x={:.1f} y={:.1f}>{}</text>\n", labeled->color,
                           x.to_coordinate(labeled->points.back().x) + 9, y_position + 4,
                           escape_html(labeled->label));
}

} // namespace

std::string draw_plot(const plot &plot) {
    const auto [min_tick, max_tick] = std::minmax_element(
        plot.x_ticks.begin(), plot.x_ticks.end(),
        [](const axis_tick &a, const axis_tick &b) { return a.value < b.value; });
    const axis x{min_tick->value, max_tick->value, LEFT_MARGIN, WIDTH - RIGHT_MARGIN};
    const axis y{plot.y_low, plot.y_high, HEIGHT - BOTTOM_MARGIN, TOP_MARGIN};
    std::string svg =
        fmt::format("<figure><figcaption>{}</figcaption>"
                    "<svg viewBox=\"0 0 {} {}\" role=img aria-label=\"{}\">\n",
                    escape_html(plot.title), WIDTH, HEIGHT, escape_html(plot.description));
    draw_grid(svg, plot, x, y);
    for (const curve &curve : plot.curves)
        if (!curve.points.empty())
            draw_curve(svg, curve, x, y);
    draw_labels(svg, plot, x, y);
    return svg + "</svg></figure>\n";
}

} // namespace tools::bench

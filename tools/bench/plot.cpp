// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "plot.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/core.h>
#include <iterator>

namespace tools::bench {
namespace {

constexpr double WIDTH = 400, HEIGHT = 260, LEFT = 46, RIGHT = 84, TOP = 34, BOTTOM = 42;
constexpr double LABEL_HEIGHT = 15;

/// A logarithmic axis: maps values min..max to coordinates begin..end.
struct axis {
    double min, max, begin, end;
    [[nodiscard]] double position(double value) const {
        const double log_range = std::log(max / min);
        const double fraction = log_range > 0 ? std::log(value / min) / log_range : 0.5;
        return begin + fraction * (end - begin);
    }
};

/// 1, 2, 5, 10, 20 ..., or powers of ten for a large range.
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

void draw_grid(std::string &svg, const plot &plot, const axis &x, const axis &y) {
    for (const double value : tick_values(plot.y_low, plot.y_high))
        svg += fmt::format("<line class=grid x1={:.1f} x2={:.1f} y1={:.1f} y2={:.1f} />"
                           "<text class=tick x={:.1f} y={:.1f} text-anchor=end>{:g}</text>\n",
                           x.begin, x.end, y.position(value), y.position(value), x.begin - 6,
                           y.position(value) + 4, value);
    for (const auto &[value, name] : plot.x_ticks)
        svg += fmt::format("<text class=tick x={:.1f} y={:.1f} text-anchor=middle>{}</text>\n",
                           x.position(value), y.begin + 16, escape_html(name));
    svg += fmt::format("<text class=unit x={:.1f} y={:.1f} text-anchor=middle>{}</text>\n",
                       (x.begin + x.end) / 2, HEIGHT - 6, escape_html(plot.x_unit));
    svg += fmt::format("<text class=unit x=4 y={:.1f}>{}</text>\n", TOP - 12,
                       escape_html(plot.y_unit));
}

void draw_curve(std::string &svg, const series &curve, const axis &x, const axis &y) {
    std::string path, lower, upper;
    for (const point &pt : curve.points) {
        const auto to_coordinates = [&](double value) {
            return fmt::format("{:.1f},{:.1f} ", x.position(pt.x), y.position(value));
        };
        path += to_coordinates(pt.y);
        lower += to_coordinates(pt.y);
        upper.insert(0, to_coordinates(std::max(pt.high, pt.y)));
    }
    svg += fmt::format("<g class={}>", curve.color);
    svg += fmt::format("<polygon class=band points=\"{}{}\"/>", lower, upper);
    svg += fmt::format("<polyline class=curve points=\"{}\"/>", path);
    for (const point &pt : curve.points)
        svg += fmt::format("<circle class=dot cx={:.1f} cy={:.1f} r=3 />", x.position(pt.x),
                           y.position(pt.y));
    svg += "</g>\n";
}

/// At the right ends of the curves, moved apart where they would overlap.
void draw_labels(std::string &svg, const plot &plot, const axis &x, const axis &y) {
    struct label {
        double position;
        const series *curve;
    };
    std::vector<label> labels;
    for (const series &curve : plot.curves)
        if (!curve.points.empty())
            labels.push_back({y.position(curve.points.back().y), &curve});
    std::sort(labels.begin(), labels.end(),
              [](const label &a, const label &b) { return a.position < b.position; });
    double lower_bound = TOP - LABEL_HEIGHT;
    for (auto &[position, curve] : labels)
        lower_bound = position = std::max(position, lower_bound + LABEL_HEIGHT);
    double upper_bound = y.begin - 5 + LABEL_HEIGHT; // clear of the text below the axis
    for (auto it = labels.rbegin(); it != labels.rend(); ++it)
        upper_bound = it->position = std::min(it->position, upper_bound - LABEL_HEIGHT);
    for (const auto &[position, curve] : labels)
        svg += fmt::format("<text class=\"label {}\" x={:.1f} y={:.1f}>{}</text>\n", curve->color,
                           x.position(curve->points.back().x) + 9, position + 4,
                           escape_html(curve->label));
}

} // namespace

std::string escape_html(const std::string &text) {
    std::string result;
    for (const char ch : text) {
        switch (ch) {
        case '&':
            result += "&amp;";
            break;
        case '<':
            result += "&lt;";
            break;
        case '>':
            result += "&gt;";
            break;
        case '"':
            result += "&quot;";
            break;
        case '\'':
            result += "&#39;";
            break;
        default:
            result += ch;
        }
    }
    return result;
}

std::string draw(const plot &plot) {
    const auto [min_tick, max_tick] = std::minmax_element(
        plot.x_ticks.begin(), plot.x_ticks.end(),
        [](const axis_tick &a, const axis_tick &b) { return a.value < b.value; });
    const axis x{min_tick->value, max_tick->value, LEFT, WIDTH - RIGHT};
    const axis y{plot.y_low, plot.y_high, HEIGHT - BOTTOM, TOP};
    std::string svg =
        fmt::format("<figure><figcaption>{}</figcaption>"
                    "<svg viewBox=\"0 0 {} {}\" role=img aria-label=\"{}\">\n",
                    escape_html(plot.title), WIDTH, HEIGHT, escape_html(plot.description));
    draw_grid(svg, plot, x, y);
    for (const series &curve : plot.curves)
        if (!curve.points.empty())
            draw_curve(svg, curve, x, y);
    draw_labels(svg, plot, x, y);
    return svg + "</svg></figure>\n";
}

} // namespace tools::bench

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "plot.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <iterator>

namespace tools::bench {
namespace {

constexpr double WIDTH = 400, HEIGHT = 260, LEFT = 46, RIGHT = 84, TOP = 34, BOTTOM = 42;
constexpr double LABEL_HEIGHT = 15;

/// Where a value is on an axis.
struct axis {
    double from, to, begin, end;
    [[nodiscard]] double place(double value) const {
        const double span = std::log(to / from);
        const double part = span > 0 ? std::log(value / from) / span : 0.5;
        return begin + part * (end - begin);
    }
};

/// 1, 2, 5, 10, 20 ... or, where that is too many, powers of ten.
std::vector<double> ticks(double low, double high) {
    const bool fine = high / low < 1000;
    std::vector<double> all;
    for (double decade = std::pow(10, std::floor(std::log10(low))); decade <= high; decade *= 10)
        for (const double step : {1.0, 2.0, 5.0})
            if ((fine || step == 1.0) && decade * step >= low * 0.999 &&
                decade * step <= high * 1.001)
                all.push_back(decade * step);
    return all;
}

void grid(std::string &svg, const plot &what, const axis &x, const axis &y) {
    auto out = std::back_inserter(svg);
    for (const double value : ticks(what.low, what.high))
        fmt::format_to(out,
                       "<line class=grid x1={:.1f} x2={:.1f} y1={:.1f} y2={:.1f} />"
                       "<text class=tick x={:.1f} y={:.1f} text-anchor=end>{:g}</text>\n",
                       x.begin, x.end, y.place(value), y.place(value), x.begin - 6,
                       y.place(value) + 4, value);
    for (const auto &[value, name] : what.x_ticks)
        fmt::format_to(out, "<text class=tick x={:.1f} y={:.1f} text-anchor=middle>{}</text>\n",
                       x.place(value), y.begin + 16, escaped(name));
    fmt::format_to(out, "<text class=unit x={:.1f} y={:.1f} text-anchor=middle>{}</text>\n",
                   (x.begin + x.end) / 2, HEIGHT - 6, escaped(what.x_unit));
    fmt::format_to(out, "<text class=unit x=4 y={:.1f}>{}</text>\n", TOP - 12,
                   escaped(what.y_unit));
}

void curve(std::string &svg, const series &line, const axis &x, const axis &y) {
    std::string path, band, back;
    for (const point &each : line.points) {
        const auto pair = [&](double value) {
            return fmt::format("{:.1f},{:.1f} ", x.place(each.x), y.place(value));
        };
        path += pair(each.y);
        band += pair(each.y);
        back.insert(0, pair(std::max(each.high, each.y)));
    }
    auto out = std::back_inserter(svg);
    fmt::format_to(out, "<g class={}>", line.color);
    fmt::format_to(out, "<polygon class=band points=\"{}{}\"/>", band, back);
    fmt::format_to(out, "<polyline class=curve points=\"{}\"/>", path);
    for (const point &each : line.points)
        fmt::format_to(out, "<circle class=dot cx={:.1f} cy={:.1f} r=3 />", x.place(each.x),
                       y.place(each.y));
    svg += "</g>\n";
}

/// At the curves' right ends, pushed apart where they would lie on each other.
void labels(std::string &svg, const plot &what, const axis &x, const axis &y) {
    std::vector<std::pair<double, const series *>> places;
    for (const series &line : what.lines)
        if (!line.points.empty())
            places.emplace_back(y.place(line.points.back().y), &line);
    std::sort(places.begin(), places.end(),
              [](const auto &one, const auto &other) { return one.first < other.first; });
    double before = TOP - LABEL_HEIGHT;
    for (auto &[place, line] : places)
        before = place = std::max(place, before + LABEL_HEIGHT);
    double after = y.begin - 5 + LABEL_HEIGHT; // clear of what is written below the axis
    for (auto each = places.rbegin(); each != places.rend(); ++each)
        after = each->first = std::min(each->first, after - LABEL_HEIGHT);
    for (const auto &[place, line] : places)
        fmt::format_to(std::back_inserter(svg),
                       "<text class=\"label {}\" x={:.1f} y={:.1f}>{}</text>\n", line->color,
                       x.place(line->points.back().x) + 9, place + 4, escaped(line->label));
}

} // namespace

std::string escaped(const std::string &text) {
    std::string safe;
    for (const char letter : text) {
        switch (letter) {
        case '&':
            safe += "&amp;";
            break;
        case '<':
            safe += "&lt;";
            break;
        case '>':
            safe += "&gt;";
            break;
        case '"':
            safe += "&quot;";
            break;
        case '\'':
            safe += "&#39;";
            break;
        default:
            safe += letter;
        }
    }
    return safe;
}

std::string draw(const plot &what) {
    const auto [first, last] = std::minmax_element(
        what.x_ticks.begin(), what.x_ticks.end(),
        [](const auto &one, const auto &other) { return one.first < other.first; });
    const axis x{first->first, last->first, LEFT, WIDTH - RIGHT};
    const axis y{what.low, what.high, HEIGHT - BOTTOM, TOP};
    std::string svg = fmt::format("<figure><figcaption>{}</figcaption>"
                                  "<svg viewBox=\"0 0 {} {}\" role=img aria-label=\"{}\">\n",
                                  escaped(what.title), WIDTH, HEIGHT, escaped(what.described));
    grid(svg, what, x, y);
    for (const series &line : what.lines)
        if (!line.points.empty())
            curve(svg, line, x, y);
    labels(svg, what, x, y);
    return svg + "</svg></figure>\n";
}

} // namespace tools::bench

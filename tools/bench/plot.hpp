// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// SVG plots for the HTML page, whose classes define colors and fonts.
#pragma once

#include <string>
#include <vector>

namespace tools::bench {

struct point {
    double x = 0, y = 0, high = 0; ///< high: the upper end of the band above y
};

struct series {
    std::string label; ///< drawn at its right end
    std::string color; ///< CSS class
    std::vector<point> points;
};

struct axis_tick {
    double value;
    std::string label;
};

struct plot {
    std::string title, description; ///< description: for screen readers
    std::string x_unit, y_unit;
    std::vector<axis_tick> x_ticks;
    double y_low = 1, y_high = 10;
    std::vector<series> curves;
};

/// Draws a plot with logarithmic axes.
std::string draw(const plot &plot);

/// Escapes a text for HTML and its attributes.
std::string escape_html(const std::string &text);

} // namespace tools::bench

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// SVG plots for the HTML page, whose classes define colors and fonts.
#pragma once

#include <string>
#include <vector>

namespace tools::bench {

struct curve_point {
    double x = 0, y = 0;
    double band_high = 0; ///< the band above the curve reaches from y to this value
};

struct curve {
    std::string label; ///< drawn at its right end
    std::string color; ///< CSS class
    std::vector<curve_point> points;
};

struct axis_tick {
    double value;
    std::string label;
};

/// A plot with logarithmic axes. The x axis ranges over the ticks, the y axis from y_low to y_high.
struct plot {
    std::string title, description; ///< description: for screen readers
    std::string x_unit, y_unit;
    std::vector<axis_tick> x_ticks;
    double y_low = 1, y_high = 10;
    std::vector<curve> curves;
};

/// Returns an HTML figure with an SVG.
std::string draw_plot(const plot &plot);

} // namespace tools::bench

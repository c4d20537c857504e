// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Plots as SVG within a page. Colours and fonts are the page's, by class.
#pragma once

#include <string>
#include <vector>

namespace tools::bench {

struct point {
    double x = 0, y = 0, high = 0; ///< high: the upper end of a band above y
};

struct series {
    std::string label; ///< stands at its right end
    std::string color; ///< class
    std::vector<point> points;
};

struct plot {
    std::string title, described; ///< described: for those who do not see it
    std::string x_unit, y_unit;
    std::vector<std::pair<double, std::string>> x_ticks;
    double low = 1, high = 10; ///< of y
    std::vector<series> lines;
};

/// Both axes are logarithmic.
std::string draw(const plot &what);

/// For text and attributes of HTML.
std::string escaped(const std::string &text);

} // namespace tools::bench

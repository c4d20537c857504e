// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "figures.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace tools::bench {

std::string brief(double value) {
    if (!(value > 0))
        return "-";
    return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0);
}

std::string occasion(const std::string &call) {
    return call == "read" ? "before a Read" : "around a Write";
}

const cell *find(const results &all, const std::string &instructions, const std::string &call,
                 const std::string &state, std::size_t bytes) {
    for (const cell &each : all.cells)
        if (each.instructions == instructions && each.call == call && each.state == state &&
            each.bytes == bytes)
            return &each;
    return nullptr;
}

std::vector<std::pair<std::string, std::string>> ways(const results &all) {
    std::vector<std::pair<std::string, std::string>> seen;
    for (const cell &each : all.cells) {
        const std::pair way{each.instructions, each.call};
        if (std::find(seen.begin(), seen.end(), way) == seen.end())
            seen.push_back(way);
    }
    return seen;
}

} // namespace tools::bench

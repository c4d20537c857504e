// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "report.hpp"

#include <charconv>
#include <fmt/core.h>
#include <stdexcept>

namespace tools::bench {
namespace {

/// The length of a range, an ibv_sge, has 32 bits.
constexpr std::size_t MAX_SIZE = std::size_t{1} << 30;

} // namespace

std::string format_size(std::size_t bytes) {
    static constexpr const char *UNITS[] = {"B", "KiB", "MiB", "GiB"};
    std::size_t unit = 0;
    while (unit < 3 && bytes >= 1024 && bytes % 1024 == 0) {
        bytes /= 1024;
        ++unit;
    }
    return fmt::format("{} {}", bytes, UNITS[unit]);
}

/// "64", "64B", "4k", "4KiB", "16M", "1G". Throws std::invalid_argument.
std::size_t parse_size(const std::string &text) {
    const auto invalid = [&] {
        return std::invalid_argument("not a size from 1 to 1 GiB, such as 64, 4k or 16M: " + text);
    };
    std::size_t bytes = 0;
    const auto [unit_begin, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
    std::string unit(unit_begin, text.data() + text.size());
    if (unit.ends_with("iB"))
        unit.resize(unit.size() - 2);
    if (unit.size() > 1 ||
        (unit.size() == 1 && std::string("kKMGB").find(unit) == std::string::npos))
        throw invalid();
    const int shift = unit == "k" || unit == "K" ? 10 : unit == "M" ? 20 : unit == "G" ? 30 : 0;
    if (error != std::errc() || bytes == 0 || bytes > MAX_SIZE >> shift)
        throw invalid();
    return bytes << shift;
}

} // namespace tools::bench

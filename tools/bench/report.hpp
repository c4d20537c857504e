// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The output formats, and the comparison with older results.
#pragma once

#include "results.hpp"

namespace tools::bench {

/// A text table of at most 80 columns.
std::string as_table(const measurements &results);

std::string as_json(const measurements &results);
/// Parses the output of as_json. Throws std::runtime_error.
measurements from_json(const std::string &text);

/// A self-contained page without scripts or external files.
std::string as_html(const measurements &results);

/// Ratios of new to old times, and a verdict; at most 80 columns.
std::string as_comparison(const measurements &results, const measurements &baseline);

/// "64 B", "4 KiB", "16 MiB"
std::string size_name(std::size_t bytes);
/// Parses 64, 4k or 16MiB. Throws std::invalid_argument.
std::size_t size_value(const std::string &text);

} // namespace tools::bench

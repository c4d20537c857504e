// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The output formats, and the comparison with older results.
#pragma once

#include "results.hpp"

namespace tools::bench {

/// A text table of at most 80 columns.
std::string as_table(const measurements &results);

std::string as_json(const measurements &results);
/// Parses the output of as_json(): what as_comparison() needs of it. Throws std::runtime_error.
measurements from_json(const std::string &text);

/// A self-contained page without scripts or external files.
std::string as_html(const measurements &results);

/// For each time that both runs measured: the ratio of the current one to the baseline's, and
/// whether it is slower, faster or the same; at most 80 columns.
std::string as_comparison(const measurements &current, const measurements &baseline);

/// "64 B", "4 KiB", "16 MiB"
std::string format_size(std::size_t bytes);
/// Parses 64, 4k or 16MiB. Throws std::invalid_argument.
std::size_t parse_size(const std::string &text);

} // namespace tools::bench

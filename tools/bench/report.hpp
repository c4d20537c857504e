// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The three forms of an answer, and the comparison with an older one.
#pragma once

#include "results.hpp"

namespace tools::bench {

/// At most 80 columns.
std::string as_table(const results &all);

std::string as_json(const results &all);
/// What as_json wrote. Throws std::runtime_error if it is not that.
results from_json(const std::string &text);

/// One file that needs no other: no scripts, no fonts, nothing from elsewhere.
std::string as_page(const results &all);

/// Ratios new to old, and a verdict; at most 80 columns.
std::string as_comparison(const results &all, const results &old);

/// "64 B", "4 KiB", "16 MiB"
std::string size_name(std::size_t bytes);
/// The other way: 64, 4k, 16MiB. Throws std::invalid_argument.
std::size_t size_value(const std::string &text);

} // namespace tools::bench

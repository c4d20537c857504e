// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Calls and source of the program, for pages of HTML.
#pragma once

#include "reports/source.hpp"

#include <string>
#include <utility>
#include <vector>

namespace tools::run {

/// Rules for what the functions return.
extern const char *const SOURCE_STYLE;

/// A frame, in brackets its file and line, and that line as far as it is readable.
std::string format_frame(const std::string &frame, coherdma::reports::source_files &);

/// Lines of source with their numbers; those of `hits` are marked.
std::string format_source_lines(const std::vector<std::pair<int, std::string>> &lines,
                                const std::vector<int> &hits);

/// For which files lines are missing in these frames, and what to do; "" if for none.
std::string format_files_without_lines(const std::vector<std::string> &frames);

} // namespace tools::run

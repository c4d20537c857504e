// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "check/log.hpp"

#include <string>
#include <vector>

namespace tools::check {

/// A text report in 80 columns: a row and the title of each place, then the sums.
std::string as_table(const run_result &result);

/// The same as JSON, with all findings. `command` is what ran, `status` the exit status of coherdma
/// check.
std::string as_json(const run_result &result, const std::vector<std::string> &command, int status);

/// The same as a page of HTML, with the history of each finding's object.
std::string as_html(const run_result &result, const std::vector<std::string> &command);

/// A row for each kind of finding.
std::string list_kinds();

/// Explains a kind, or "all", in 80 columns; "" if there is no such kind.
std::string explain_kind(const std::string &name);

} // namespace tools::check

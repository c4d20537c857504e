// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "emulate/log.hpp"

#include <string>
#include <vector>

namespace tools::emulate {

/// A text report in 80 columns: a row for each run, then the findings of each code location.
std::string as_table(const std::vector<run_result> &runs);

/// The same as JSON, with all findings. `status` is the exit status of coherdma emulate.
std::string as_json(const std::vector<run_result> &runs, int status);

/// The same as a page of HTML, with the history of each finding's lines and the source of the
/// program as far as it is readable. `command` is what ran.
std::string as_html(const std::vector<run_result> &runs, const std::vector<std::string> &command);

} // namespace tools::emulate

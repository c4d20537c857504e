// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What happened to the object of a finding, as part of the page: a line of time downwards, beside
// it a bar for each request while the device has it.
#pragma once

#include "html.hpp"
#include "run/source_html.hpp"

#include <nlohmann/json.hpp>
#include <string>

namespace tools::check {

extern const char *const HISTORY_STYLE;

/// "": the finding has no events.
std::string format_history(const nlohmann::ordered_json &finding,
                           coherdma::reports::source_files &);

} // namespace tools::check

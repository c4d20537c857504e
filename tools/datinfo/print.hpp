// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "datinfo/query.hpp"

namespace tools::datinfo {

/// A line per IA, then those that cannot be opened, by reason.
std::string as_table(const std::vector<ia_info> &infos);

/// All attributes of an IA, or why it cannot be opened.
std::string as_details(const ia_info &info);

std::string as_json(const std::vector<ia_info> &infos);

} // namespace tools::datinfo

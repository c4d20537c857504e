// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "datinfo/query.hpp"

namespace tools::datinfo {

/// A line per IA that can be opened. Then the others: with_reasons, grouped by reason; else their
/// number.
std::string as_table(const std::vector<ia_info> &infos, bool with_reasons);

/// All attributes of an IA, or why it cannot be opened.
std::string as_details(const ia_info &info);

std::string as_json(const std::vector<ia_info> &infos);

} // namespace tools::datinfo

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "datinfo/look.hpp"

namespace tools::datinfo {

/// A line for each IA, then those that cannot be opened, by reason.
std::string as_table(const std::vector<looked> &all);

/// Everything about one IA, or why it cannot be opened.
std::string as_details(const looked &one);

std::string as_json(const std::vector<looked> &all);

/// Records of dat.conf for the devices of this machine, two each; empty if there is none.
std::string as_conf();

} // namespace tools::datinfo

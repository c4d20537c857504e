// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "emulate/log.hpp"

#include <string>
#include <vector>

namespace tools::emulate {

/// For people, in lines of 80 columns: a row for each run, then what was found at which place.
std::string as_table(const std::vector<run_result> &all);

/// The same and every finding as the emulation told it. status: what the command ends with.
std::string as_json(const std::vector<run_result> &all, int status);

} // namespace tools::emulate

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "fault/fail_each.hpp"
#include "fault/log.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace tools::fault {

/// What was done in one run.
struct run_report {
    std::vector<std::string> faults; ///< of the scenario
    std::uint64_t seed = 0;
    int status = 0; ///< of the subcommand
    run_log log;
};

std::string as_text(const run_report &);
std::string as_json(const run_report &, const std::vector<std::string> &command);

std::string as_text(const std::vector<trial> &);
std::string as_json(const std::vector<trial> &, const std::vector<std::string> &command,
                    int status);

} // namespace tools::fault

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// --fail-each: which calls a program makes, and what it does if one of them fails.
#pragma once

#include "fault/log.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tools::fault {

enum class outcome : unsigned char {
    GOES_ON,  ///< it ended with the status that it has without a fault
    FAILS,    ///< it ended with another status than 0
    SUCCEEDS, ///< it ended with 0, and not without a fault
    CRASHES,  ///< a signal ended a process
    HANGS,    ///< it did not end in time
    NOT_MADE, ///< this time it did not make the call
};

/// One call of the program, and the run in which it failed.
struct trial {
    std::string program; ///< whose call it is
    std::string call, place, error;
    std::uint64_t number = 0; ///< the call is that many-th one of the name
    outcome result = outcome::NOT_MADE;
    int status = 0;
    std::string last_line; ///< of the command's output
    /// Objects that are left at the end, more than without a fault, by kind.
    std::map<std::string, long> left;

    [[nodiscard]] bool is_bad() const noexcept {
        return result == outcome::CRASHES || result == outcome::HANGS;
    }
    /// "2nd ibv_reg_mr fails ENOMEM"
    [[nodiscard]] std::string scenario() const;
};

/// A trial of each place that calls, in the order of the calls.
std::vector<trial> plan_trials(const run_log &recorded);

/// The status of a command that timeout(1) has ended.
inline constexpr int TIMEOUT_STATUS = 124;

/// Fills in what has come of it.
void classify(trial &, int status, const run_log &, int status_without_fault,
              const run_log &without_fault);

std::string name_of(outcome);

} // namespace tools::fault

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// --fail-each: which calls a program makes, and what it does if one of them fails.
#pragma once

#include "fault/log.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tools::fault {

enum class outcome : unsigned char {
    GOES_ON,  ///< it ended with status 0, as without a fault
    FAILS,    ///< it ended with another status
    CRASHES,  ///< a signal ended it, such as SIGSEGV
    HANGS,    ///< it did not end in time
    NOT_MADE, ///< this time it did not make the call
};

/// One call of the program, and the run in which it failed.
struct trial {
    std::string program; ///< whose call it is
    std::string call, error;
    /// Where the call was that failed: another place than planned if threads or time had the
    /// program make its calls in another order.
    std::string place;
    std::uint64_t number = 0; ///< the call is that many-th one of the name
    outcome result = outcome::NOT_MADE;
    std::optional<int> status; ///< of the command; no value: it did not end in time
    std::string last_line;     ///< of the command's output
    /// Objects that are left at the end, more than without a fault, by kind.
    std::map<std::string, long> left;

    [[nodiscard]] bool is_bad() const noexcept {
        return result == outcome::CRASHES || result == outcome::HANGS;
    }
    /// "2nd ibv_reg_mr fails ENOMEM"
    [[nodiscard]] std::string scenario() const;
};

/// A trial of each place that calls with each of these errors ("ENOMEM"), in the order of the
/// calls. No errors: with one that the call has when there is no memory, room or device.
std::vector<trial> plan_trials(const run_log &recorded, const std::vector<std::string> &errors);

/// Fills in what has come of it. status: as trial::status.
void classify(trial &, std::optional<int> status, const run_log &, const run_log &without_fault);

std::string name_of(outcome);

} // namespace tools::fault

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "fault/fail_each.hpp"

#include "faults/names.hpp"
#include "run/run.hpp"

#include <algorithm>
#include <csignal>

namespace tools::fault {
namespace {

/// "1st", "22nd", "113th"
std::string to_ordinal(std::uint64_t number) {
    const std::uint64_t last_two = number % 100, last = number % 10;
    const bool is_teen = last_two >= 11 && last_two <= 13;
    const char *const suffix = is_teen     ? "th"
                               : last == 1 ? "st"
                               : last == 2 ? "nd"
                               : last == 3 ? "rd"
                                           : "th";
    return std::to_string(number) + suffix;
}

/// Objects left in processes that ended by themselves.
std::map<std::string, long> count_left(const run_log &log) {
    std::map<std::string, long> left;
    for (const process &p : log.processes)
        for (const auto &[kind, count] : p.left)
            left[kind] += count;
    return left;
}

/// Whether a signal other than that of timeout(1) ended the command, as shells say it.
bool is_crash(int status) noexcept {
    const int signal = status - run::SIGNAL_STATUS_BASE;
    return signal == SIGSEGV || signal == SIGABRT || signal == SIGBUS || signal == SIGFPE ||
           signal == SIGILL || signal == SIGTRAP || signal == SIGSYS;
}

outcome find_outcome(int status, int status_without_fault, const run_log &log) noexcept {
    if (status == TIMEOUT_STATUS || status == run::SIGNAL_STATUS_BASE + SIGKILL)
        return outcome::HANGS;
    if (is_crash(status))
        return outcome::CRASHES;
    if (!log.has_effect())
        return outcome::NOT_MADE;
    if (status == status_without_fault)
        return outcome::GOES_ON;
    return status == 0 ? outcome::SUCCEEDS : outcome::FAILS;
}

} // namespace

std::string trial::scenario() const {
    return to_ordinal(number) + " " + call + " fails " + error;
}

std::vector<trial> plan_trials(const run_log &recorded) {
    std::vector<trial> trials;
    for (const process &p : recorded.processes)
        for (const process::call &call : p.calls) {
            const auto *const known = coherdma::faults::find_call(call.name);
            const bool is_planned =
                std::any_of(trials.begin(), trials.end(), [&](const trial &planned) {
                    return planned.program == p.program && planned.call == call.name &&
                           planned.place == call.place;
                });
            if (known == nullptr || is_planned)
                continue;
            trials.push_back({.program = p.program,
                              .call = call.name,
                              .place = call.place,
                              .error = coherdma::faults::name_of_errno(known->usual_error),
                              .number = call.first,
                              .last_line = {},
                              .left = {}});
        }
    return trials;
}

void classify(trial &tried, int status, const run_log &log, int status_without_fault,
              const run_log &without_fault) {
    tried.status = status;
    tried.result = find_outcome(status, status_without_fault, log);
    std::map<std::string, long> left_without_fault = count_left(without_fault);
    for (const auto &[kind, count] : count_left(log))
        if (count > left_without_fault[kind] && !tried.is_bad())
            tried.left[kind] = count - left_without_fault[kind];
}

std::string name_of(outcome result) {
    switch (result) {
    case outcome::GOES_ON:
        return "goes on";
    case outcome::FAILS:
        return "fails";
    case outcome::SUCCEEDS:
        return "succeeds";
    case outcome::CRASHES:
        return "crashes";
    case outcome::HANGS:
        return "hangs";
    case outcome::NOT_MADE:
        return "not made";
    }
    return "";
}

} // namespace tools::fault

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "fault/fail_each.hpp"

#include "faults/names.hpp"
#include "run/run.hpp"

#include <algorithm>
#include <array>
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

/// By a signal that ends a program for a mistake. Shells give the status of a signal as a program
/// may give its own: -ETIMEDOUT is 146, which a signal that ends no program would have, too.
bool is_crash(int status) noexcept {
    constexpr std::array SIGNALS = {SIGILL,  SIGTRAP, SIGABRT, SIGBUS, SIGFPE,
                                    SIGKILL, SIGSEGV, SIGPIPE, SIGSYS};
    return std::any_of(SIGNALS.begin(), SIGNALS.end(),
                       [=](int signal) { return status == run::SIGNAL_STATUS_BASE + signal; });
}

outcome find_outcome(std::optional<int> status, const run_log &log) noexcept {
    if (!status)
        return outcome::HANGS;
    if (is_crash(*status))
        return outcome::CRASHES;
    if (!log.has_effect())
        return outcome::NOT_MADE;
    return *status == 0 ? outcome::GOES_ON : outcome::FAILS;
}

} // namespace

std::string trial::scenario() const {
    return to_ordinal(number) + " " + call + " fails " + error;
}

std::vector<trial> plan_trials(const run_log &recorded, const std::vector<std::string> &errors) {
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
            const std::vector<std::string> usual_error = {
                coherdma::faults::name_of_errno(known->usual_error)};
            for (const std::string &error : errors.empty() ? usual_error : errors)
                trials.push_back({.program = p.program,
                                  .call = call.name,
                                  .error = error,
                                  .place = call.place,
                                  .number = call.first,
                                  .status = {},
                                  .last_line = {},
                                  .left = {}});
        }
    return trials;
}

void classify(trial &tried, std::optional<int> status, const run_log &log,
              const run_log &without_fault) {
    tried.status = status;
    tried.result = find_outcome(status, log);
    for (const event &done : log.events)
        if (!done.place.empty())
            tried.place = done.place;
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

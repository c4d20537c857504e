// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Runs trials of a provider, each in a process of its own, and prints "NAME: right (WHAT WAS SEEN)"
// or "NAME: wrong (...)" for each. A provider that crashes or never returns is wrong, too. A trial
// that could not be made is "untried", and the status 1.

#pragma once

#include "verbs.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <infiniband/verbs.h>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace verbs_test {

using std::chrono::milliseconds;

/// What a trial has seen, and whether a provider without the fault behaves so.
struct outcome {
    bool right;
    std::string seen;
};

/// How long a trial waits for a completion or event that must not come.
inline constexpr milliseconds absence_timeout(50);

/// How long a trial waits for what must come: it only ends a hang. TRIAL_LIMIT_MS makes it shorter
/// for the stock provider, some of whose faults are hangs.
inline milliseconds trial_timeout() {
    const char *const text = std::getenv("TRIAL_LIMIT_MS");
    return milliseconds(text != nullptr ? std::atoi(text) : 120'000);
}

/// target: what it is tried on, from the command line.
template <class target>
struct trial {
    std::string_view name;
    outcome (*run)(const target &);
};

/// The next completion, or none within the timeout. After the first polls it sleeps between polls:
/// the kernel's threads and other tests need the processor.
inline std::optional<ibv_wc> wait_completion(ibv_cq *cq, milliseconds timeout) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    constexpr unsigned busy_polls = 100;
    unsigned polls = 0;
    do {
        ibv_wc wc{};
        const int count = ibv_poll_cq(cq, 1, &wc);
        check(count < 0 ? -1 : 0, "poll");
        if (count == 1)
            return wc;
        if (++polls > busy_polls)
            std::this_thread::sleep_for(milliseconds(1));
    } while (std::chrono::steady_clock::now() < deadline);
    return {};
}
/// The next completion, which must be a success.
inline ibv_wc expect_success(ibv_cq *cq, const char *operation) {
    const auto wc = wait_completion(cq, std::max(trial_timeout(), milliseconds(60'000)));
    if (!wc)
        throw failure(concat("no completion of ", operation));
    if (wc->status != IBV_WC_SUCCESS)
        throw failure(concat(operation, ": ", ibv_wc_status_str(wc->status)));
    return *wc;
}

inline void print_result(std::string_view name, std::string_view judgement,
                         const std::string &observation) {
    std::printf("%s: %s (%s)\n", std::string(name).c_str(), std::string(judgement).c_str(),
                observation.c_str());
    std::fflush(stdout);
}

/// In the child, which it ends: the exit status is 0, also for "wrong", and 1 if the trial could
/// not be made. open() returns the target.
template <class target, class opener>
[[noreturn]] void run_in_child(const trial<target> &trial, const opener &open) {
    constexpr unsigned min_alarm_s = 60; // the alarm ends a trial that hangs
    alarm(std::max(min_alarm_s, static_cast<unsigned>(2 * trial_timeout().count() / 1000)));
    int status = 0;
    try {
        const outcome result = trial.run(open());
        print_result(trial.name, result.right ? "right" : "wrong", result.seen);
    } catch (const std::exception &error) {
        print_result(trial.name, "untried", error.what());
        status = 1;
    }
    _exit(status);
}

/// Runs each trial in a child; returns the program's exit status. trial_names: the trials to run,
/// or none for all. open() returns the target; it is called in each child.
template <class target, class opener>
int run_trials(std::span<const trial<target>> trials, std::span<char *const> trial_names,
               const opener &open) {
    int status = 0;
    for (const trial<target> &trial : trials) {
        if (!trial_names.empty() && std::ranges::find(trial_names, trial.name) == trial_names.end())
            continue;
        const pid_t child = fork();
        check(child < 0 ? -1 : 0, "fork");
        if (child == 0)
            run_in_child(trial, open);
        int child_status = 0;
        check(waitpid(child, &child_status, 0) == child ? 0 : -1, "wait for the trial");
        if (WIFSIGNALED(child_status))
            print_result(trial.name, "wrong",
                         WTERMSIG(child_status) == SIGALRM
                             ? "never returned"
                             : concat("crashed: ", strsignal(WTERMSIG(child_status))));
        else if (WEXITSTATUS(child_status) != 0)
            status = 1;
    }
    return status;
}

/// main() of a program of trials. usage: the program's name, and one word for each argument before
/// the names of trials. open(args) makes the trials' target from the command line.
template <class target, std::size_t size, class opener>
int run_program(int argc, char **argv, const std::string &usage,
                const std::array<trial<target>, size> &trials, const opener &open) try {
    const std::span<char *const> args(argv, static_cast<std::size_t>(argc));
    const auto num_fixed_args = static_cast<std::size_t>(std::ranges::count(usage, ' ')) + 1;
    if (args.size() < num_fixed_args)
        throw failure(usage + " [TRIAL...]");
    return run_trials(std::span<const trial<target>>(trials), args.subspan(num_fixed_args),
                      [&] { return open(args); });
} catch (const std::exception &error) {
    std::fprintf(stderr, "%s: %s\n", usage.substr(0, usage.find(' ')).c_str(), error.what());
    return 1;
}

} // namespace verbs_test

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What programs share that try faults of a provider: each fault is tried in a process of its own,
// and a line says "NAME: right (WHAT WAS SEEN)" or "NAME: wrong (...)". A provider that crashes or
// never returns is wrong, too. A trial that could not be made is "untried", and the status 1.

#pragma once

#include "verbs.hpp"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <infiniband/verbs.h>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>

namespace carry {

using std::chrono::milliseconds;

struct outcome {
    bool right;
    std::string seen;
};

/// place: where it is tried, from what the command line names.
template <class place>
struct fault {
    std::string_view name;
    outcome (*tried)(const place &);
};

// The next completion, or none in that time.
inline std::optional<ibv_wc> completion(ibv_cq *cq, milliseconds within) {
    const auto until = std::chrono::steady_clock::now() + within;
    do {
        ibv_wc found{};
        const int count = ibv_poll_cq(cq, 1, &found);
        check(count < 0 ? -1 : 0, "poll");
        if (count == 1)
            return found;
    } while (std::chrono::steady_clock::now() < until);
    return {};
}
inline ibv_wc success(ibv_cq *cq, const char *of) {
    const auto found = completion(cq, milliseconds(2000));
    if (!found)
        throw failure(text("no completion of ", of));
    if (found->status != IBV_WC_SUCCESS)
        throw failure(text(of, ": ", ibv_wc_status_str(found->status)));
    return *found;
}

inline void say(std::string_view name, std::string_view judgement, const std::string &seen) {
    std::printf("%s: %s (%s)\n", std::string(name).c_str(), std::string(judgement).c_str(),
                seen.c_str());
    std::fflush(stdout);
}

// In the child: the status is 0 unless it could not be tried.
template <class place, class opener>
[[noreturn]] void try_here(const fault<place> &one, const opener &open) {
    constexpr unsigned patience = 60;
    alarm(patience);
    int status = 0;
    try {
        const outcome is = one.tried(open());
        say(one.name, is.right ? "right" : "wrong", is.seen);
    } catch (const std::exception &error) {
        say(one.name, "untried", error.what());
        status = 1;
    }
    _exit(status);
}

/// The program's status. names: those to try; none: all.
template <class place, class opener>
int try_each(std::span<const fault<place>> faults, std::span<char *const> names,
             const opener &open) {
    int status = 0;
    const auto wanted = [&](std::string_view name) {
        bool is = names.empty();
        for (const std::string_view each : names)
            is = is || each == name;
        return is;
    };
    for (const fault<place> &one : faults) {
        if (!wanted(one.name))
            continue;
        const pid_t child = fork();
        check(child < 0 ? -1 : 0, "fork");
        if (child == 0)
            try_here(one, open);
        int how = 0;
        check(waitpid(child, &how, 0) == child ? 0 : -1, "wait for the trial");
        if (WIFSIGNALED(how))
            say(one.name, "wrong",
                WTERMSIG(how) == SIGALRM ? "never returned"
                                         : text("crashed: ", strsignal(WTERMSIG(how))));
        else if (WEXITSTATUS(how) != 0)
            status = 1;
    }
    return status;
}

} // namespace carry

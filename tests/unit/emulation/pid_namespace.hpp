// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Processes of other PID namespaces, as containers have them; only root can make one.
#pragma once

#include "../cmocka.hpp"

#include <functional>
#include <sched.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

namespace emulation_test {

/// Runs the function in a process of another PID namespace, with its own /proc. Returns the status
/// of that process, or NOT_PERMITTED.
inline constexpr int NOT_PERMITTED = 77;
inline int run_in_pid_namespace(const std::function<int()> &function) {
    const pid_t child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0)
            _exit(NOT_PERMITTED);
        const pid_t init = fork();
        if (init == 0) {
            const bool has_proc = mount("none", "/", "none", MS_REC | MS_PRIVATE, nullptr) == 0 &&
                                  mount("proc", "/proc", "proc", 0, nullptr) == 0;
            _exit(has_proc ? function() : NOT_PERMITTED);
        }
        int status = 0;
        _exit(waitpid(init, &status, 0) == init && WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

} // namespace emulation_test

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Processes that end with an open IA, and what the kernel keeps of them.

#pragma once

#include "check.hpp"
#include "kernel.hpp"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace conform {

enum class end { EXIT, IMMEDIATE_EXIT, KILL };

constexpr int status_of_exit = 17; ///< not that of a process which has failed elsewhere

[[noreturn]] inline void end_process(end kind) {
    if (kind == end::EXIT)
        std::exit(status_of_exit);
    if (kind == end::KILL)
        raise(SIGKILL);
    _exit(status_of_exit);
}

/// status: that waitpid() has returned for the process.
inline bool has_ended(int status, end kind) {
    return kind == end::KILL ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                             : WIFEXITED(status) && WEXITSTATUS(status) == status_of_exit;
}

/// The kernel may keep a connection for some seconds, until its peer knows of the end.
inline void expect_kernel_counts(const std::string &device, const kernel_counts &expected) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    kernel_counts now;
    do {
        now = count_kernel_objects(device);
        if (now == expected)
            return;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    } while (std::chrono::steady_clock::now() < deadline);
    for (const auto &[kind, count] : now)
        expect_eq(count, expected.at(kind), "the kernel's objects of kind " + kind);
}

} // namespace conform

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Rounds of random calls by several threads. At the end of a round one thread frees all objects.

#pragma once

#include "worker.hpp"

namespace sequencer {

/// What the place where it runs adds: called while no IA is open.
struct round_hooks {
    void (*begin)() = [] {
    };
    void (*end)() = [] {
    }; ///< calls fail() if objects are left
};

/// Runs rounds until config.calls or config.seconds is reached. Returns the exit status.
int run(const settings &config, const round_hooks &hooks);
/// The same with settings of the command line.
int run_program(int argc, char **argv, const round_hooks &hooks);

} // namespace sequencer

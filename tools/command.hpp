// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "cli.hpp"

namespace tools {

/// Exit status of a command.
enum exit_status : int {
    SUCCESS = 0,
    FAILED = 1,
    USAGE_ERROR = 2,
    NOT_AVAILABLE = 77, ///< not possible on this machine, not an error
};

/// Each function adds a subcommand with its options and help. If the user selects it, it runs
/// within program::parse and sets status.
void add_show(cli::command &program, int &status);
void add_explain(cli::command &program, int &status);
void add_enable(cli::command &program, int &status);
void add_disable(cli::command &program, int &status);
void add_status(cli::command &program, int &status);
void add_bench(cli::command &program, int &status);
void add_doctor(cli::command &program, int &status);
void add_emulate(cli::command &program, int &status);
void add_check(cli::command &program, int &status);
void add_fault(cli::command &program, int &status);
void add_selftest(cli::command &program, int &status);

} // namespace tools

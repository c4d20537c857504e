// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <CLI/CLI.hpp>

namespace tools {

/// What a command ends with, for scripts.
enum status : int {
    DONE = 0,
    FAILED = 1,
    MISUSE = 2,
    CANNOT_HERE = 77, ///< nothing is wrong, but this machine cannot do it
};

/// Each adds its subcommand, with options and help, to the program's. When it is the one that was
/// asked for, it runs within CLI11's parsing and leaves its status.
void add_show(CLI::App &program, int &status);
void add_explain(CLI::App &program, int &status);
void add_enable(CLI::App &program, int &status);
void add_disable(CLI::App &program, int &status);
void add_status(CLI::App &program, int &status);
void add_bench(CLI::App &program, int &status);
void add_doctor(CLI::App &program, int &status);
void add_emulate(CLI::App &program, int &status);

} // namespace tools

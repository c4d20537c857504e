// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a program for the scheduler uses. See README.md.
#pragma once

#include <cstdarg>
#include <span>

namespace schedule {

/// A program is run from its start to its end in each schedule. It starts threads as usual
/// (std::thread, pthread_create) and joins them all. It must do the same in the same schedule:
/// no random numbers, no time but that of clock_gettime(), no other process.
struct program {
    const char *name;
    void (*run)();
};

/// The schedule is a failure unless the condition holds. Any other end of the process is one, too:
/// abort(), a signal, and that no thread can ever run again.
void require(bool condition, const char *text);

/// A number below limit, which the schedule chooses.
unsigned choose(unsigned limit);

/// A program that has a syscall() of its own calls this one for what it does not do itself.
/// pc: where its syscall() returns to.
long system_call(long number, va_list list, const void *pc) noexcept;

/// The main function of a test program: runs the programs in many schedules, as the command line
/// says (--help). Returns 0, 1 if a schedule failed, or 2 after a usage error.
int run_programs(int argc, char **argv, std::span<const program> programs);

} // namespace schedule

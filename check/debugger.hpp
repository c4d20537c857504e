// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Where a debugger can stop the program when a finding has been printed: it has a breakpoint on
// coherdma_check_stop(), as `coherdma check --gdb` sets, and reads what the two variables have
// then.
#pragma once

#include "finding.hpp"

extern "C" {
/// "cq-overflow: 64 completions can come ...", and what the debugger's user should know.
extern const char *coherdma_check_message;
/// The canonical frame address of the program's frame that makes the wrong call; if that is none of
/// this thread: of the innermost one of the program.
extern const void *coherdma_check_frame;
/// Does nothing.
void coherdma_check_stop() noexcept;
}

namespace coherdma::check {

/// On the thread that reports it. One thread at a time.
void stop_debugger(const finding &);

} // namespace coherdma::check

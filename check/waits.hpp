// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Threads that wait for an event that cannot come. Another thread may be about to arm the CQ: a
// thread of the check looks at them later.
#pragma once

#include "process.hpp"

namespace coherdma::check {

/// This thread is about to wait.
void begin_wait(locked_books &, const ibv_comp_channel &);
void end_wait(locked_books &);

} // namespace coherdma::check

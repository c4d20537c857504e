// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Threads that wait for an event that cannot come, or for the acknowledgement of one. Another
// thread may be about to arm the CQ, or to acknowledge it: a thread of the check looks at them
// later.
#pragma once

#include "process.hpp"

namespace coherdma::check {

/// This thread is about to wait.
void begin_wait(locked_books &, const ibv_comp_channel &);
/// This thread is about to destroy the object.
void begin_destruction(locked_books &, const interposer::object &);
/// Nothing, if none has begun.
void end_wait(locked_books &);

} // namespace coherdma::check

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Threads that wait for an event that cannot come, or until the events of an object are
// acknowledged. Another thread may be about to arm the CQ or to acknowledge: a thread of the check
// looks at them later.
#pragma once

#include "process.hpp"

namespace coherdma::check {

/// This thread is about to wait.
void begin_wait(locked_books &, const ibv_comp_channel &);
/// This thread is about to destroy the object.
void begin_destroy(locked_books &, const interposer::object &);
/// The wait of this thread, if it has one, has ended.
void end_wait(locked_books &);

} // namespace coherdma::check

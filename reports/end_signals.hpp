// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Servers are often ended by a signal, which no handler of atexit() sees.
#pragma once

namespace coherdma::reports {

/// If SIGTERM, SIGINT or SIGHUP is about to end this process, a thread calls report() first, and
/// then the signal ends it as before; a second one ends it at once. Only signals that have their
/// default action now are handled: a program's own handler stays, and one that it installs later
/// replaces this. A report that takes longer than 3 s is not awaited. In a child of fork() the
/// signals have their default effect, and in process 1 of a PID namespace, which they do not end,
/// none; nor in a program with the thread sanitizer, which ends a process that starts a thread
/// after a fork() of several threads. is_busy(): whether this thread may have mutexes that report()
/// needs; then the thread that got the signal goes on meanwhile. Throws std::system_error if the
/// process may have no more threads.
void report_before_end_by_signal(void (*report)() noexcept, bool (*is_busy)() noexcept);

} // namespace coherdma::reports

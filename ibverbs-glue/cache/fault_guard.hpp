// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

namespace coherdma::cache {

/// Whether function(arg) returns without SIGILL, SIGSEGV or SIGBUS. Runs it in a child that shares
/// memory with the caller, so the process's threads and signal handlers are not affected. Returns
/// false also if no child can be created.
bool runs_without_fault(void (*function)(void *), void *arg) noexcept;

} // namespace coherdma::cache

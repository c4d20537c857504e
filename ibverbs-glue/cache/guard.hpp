// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

namespace coherdma::cache {

/// Whether work(argument) ends without a fault (SIGILL, SIGSEGV, SIGBUS). The caller's process,
/// its threads and its signal handlers do not notice either way. false, too, if it cannot be tried.
bool survives(void (*work)(void *), void *argument) noexcept;

} // namespace coherdma::cache

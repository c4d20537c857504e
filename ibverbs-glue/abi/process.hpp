// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The libibverbs of this process. All of this is called by libibverbs or by what it loads, one call
// at a time: under its lock around loading drivers and looking for devices, or after that.
#pragma once

#include "commands.hpp"

namespace coherdma::abi {

/// Registers a driver; the plugin's constructor calls it. If libibverbs is of no epoch that is
/// known, nothing of it is called or written, and the log has the reason.
bool enlist(const verbs_device_ops &driver) noexcept;

/// Whether a device can be served; match_device asks it first. If not, the log has the reason.
bool ready() noexcept;

/// Once ready() was true.
const layout &here() noexcept;
const commands &library() noexcept;

/// Looks a symbol up in libibverbs itself, whatever else the program has by that name.
void *find_symbol(const char *symbol, const char *version) noexcept;

/// Forgets all and judges libibverbs by other answers. For tests.
void start_over(const struct questions &libibverbs) noexcept;

} // namespace coherdma::abi

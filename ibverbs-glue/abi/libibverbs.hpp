// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The libibverbs of this process. Not thread-safe: until is_supported() has returned true, these
// functions are called by the plugin's constructor or under libibverbs' lock only.
#pragma once

#include "commands.hpp"

namespace coherdma::abi {

/// Registers a provider; for the plugin's constructor. If the ABI version is unknown, logs that and
/// calls no function of libibverbs.
bool register_driver(const verbs_device_ops &ops) noexcept;

/// Whether the ABI version is known and all required functions exist; if not, logs the reason once.
/// match_device must call it first.
bool is_supported() noexcept;

// Valid after is_supported() has returned true.
const layout &current_layout() noexcept;
const libibverbs_functions &libibverbs() noexcept;

/// Searches libibverbs only, not other libraries of the program.
void *find_libibverbs_symbol(const char *symbol, const char *version) noexcept;

/// Forgets what was detected; the next detection uses these functions. For tests.
void reset_detection(const struct detection_functions &functions) noexcept;

} // namespace coherdma::abi

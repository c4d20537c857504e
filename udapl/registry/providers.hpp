// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The providers that may be called: each that is registered, and what the objects of an open IA
// begin with, should that be another. Whoever is released may be unloaded the next moment.
#pragma once

#include "dat.hpp"

namespace coherdma::registry {

/// Under the registry's lock; as many releases as there were retains. False if there is no memory.
[[nodiscard]] bool retain(const DAT_PROVIDER *provider) noexcept;
void release(const DAT_PROVIDER *provider) noexcept;

/// Without a lock.
bool is_known(const DAT_PROVIDER *provider) noexcept;

} // namespace coherdma::registry

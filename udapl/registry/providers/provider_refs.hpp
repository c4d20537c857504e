// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Reference counts of the DAT_PROVIDER structures that may be called: those that are registered,
// and those that objects of an open IA begin with. A library may be unloaded once its provider has
// no reference.
#pragma once

#include "dat.hpp"

namespace coherdma::registry {

/// Requires registry_lock. Returns false if memory is exhausted.
[[nodiscard]] bool ref_provider(const DAT_PROVIDER *provider) noexcept;
/// Requires registry_lock. Drops one reference; the last also empties the page cache.
void unref_provider(const DAT_PROVIDER *provider) noexcept;

/// Whether the provider has a reference. Lock-free.
bool is_provider_known(const DAT_PROVIDER *provider) noexcept;

} // namespace coherdma::registry

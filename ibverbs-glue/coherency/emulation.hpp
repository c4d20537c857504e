// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "cache/emulated_cache.hpp"

namespace coherdma::coherency {

/// The emulated cache of this device, or nullptr if the device is not emulated.
const cache::emulated_cache *find_emulated_cache(const ibv_context *context) noexcept;

} // namespace coherdma::coherency

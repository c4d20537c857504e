// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Questions to coherdma's provider, and to the emulation. The provider is found by an operation of
// the context, so that it may be any file, and several may be loaded.
#pragma once

#include "cache/emulated_cache.hpp"

#include <coherdma/coherdmadv.h>

namespace coherdma::api {

/// coherdmadv_query_device() without coherdma_error(): of the provider that serves the context, and
/// of the emulation if that emulates it, whatever the provider.
int query_provider(ibv_context *context, coherdmadv_device_attr *attr,
                   std::uint32_t inlen) noexcept;

/// nullptr: the device is not emulated, or by another release of the emulation.
const cache::emulated_cache *find_emulated_cache(const ibv_context *context) noexcept;

} // namespace coherdma::api

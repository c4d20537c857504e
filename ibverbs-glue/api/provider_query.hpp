// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Questions to coherdma's provider. It is found by an operation of the context, so that it may be
// any file, and several may be loaded.
#pragma once

#include "cache/emulated_cache.hpp"

#include <coherdma/coherdmadv.h>

namespace coherdma::api {

/// coherdmadv_query_device() of the provider that serves the context, without coherdma_error().
int query_provider(ibv_context *context, coherdmadv_device_attr *attr,
                   std::uint32_t inlen) noexcept;

/// nullptr: the device is not emulated, or by another release of the emulation.
const cache::emulated_cache *find_emulated_cache(const ibv_context *context) noexcept;

} // namespace coherdma::api

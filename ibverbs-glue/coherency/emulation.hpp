// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "cache/emulated.hpp"

namespace coherdma::coherency {

/// Who plays a cache before this device; nullptr: nobody.
const cache::emulated *emulation_of(const ibv_context *context) noexcept;

} // namespace coherdma::coherency

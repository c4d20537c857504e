// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What only DAT 1.2 can return.
#pragma once

#include "../named.hpp"

#include <array>

namespace coherdma::registry {

inline constexpr std::array<named, 0> OWN_TYPES = {};
inline constexpr std::array OWN_SUBTYPES = {NAMED(DAT_INVALID_RO_COOKIE)};

} // namespace coherdma::registry

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Errors that exist in DAT 1.2 only.
#pragma once

#include "../error_name.hpp"

#include <array>

namespace coherdma::registry {

inline constexpr std::array<error_name, 0> VERSION_TYPES = {};
inline constexpr std::array VERSION_SUBTYPES = {ERROR_NAME(DAT_INVALID_RO_COOKIE)};

} // namespace coherdma::registry

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Errors that exist in DAT 2.0 only.
#pragma once

#include "../error_name.hpp"

#include <array>

namespace coherdma::registry {

inline constexpr std::array VERSION_TYPES = {
    ERROR_NAME(DAT_RESERVED_LMR), ERROR_NAME(DAT_PORT_IN_USE), ERROR_NAME(DAT_COMM_NOT_SUPPORTED),
    ERROR_NAME(DAT_EXTENSION_BASE)};
inline constexpr std::array VERSION_SUBTYPES = {ERROR_NAME(DAT_INVALID_HANDLE_CSP),
                                                ERROR_NAME(DAT_INVALID_STATE_SRQ_SHUTDOWN)};

} // namespace coherdma::registry

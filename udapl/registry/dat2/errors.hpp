// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What only DAT 2.0 can return.
#pragma once

#include "../named.hpp"

#include <array>

namespace coherdma::registry {

inline constexpr std::array OWN_TYPES = {NAMED(DAT_RESERVED_LMR), NAMED(DAT_PORT_IN_USE),
                                         NAMED(DAT_COMM_NOT_SUPPORTED), NAMED(DAT_EXTENSION_BASE)};
inline constexpr std::array OWN_SUBTYPES = {NAMED(DAT_INVALID_HANDLE_CSP),
                                            NAMED(DAT_INVALID_STATE_SRQ_SHUTDOWN)};

} // namespace coherdma::registry

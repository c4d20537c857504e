// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "dat.hpp"

namespace coherdma::registry {

/// A type or subtype of DAT_RETURN and its name in dat_error.h.
struct error_name {
    DAT_RETURN value;
    const char *name;
};
/// The value and name of one constant, from a single mention.
#define ERROR_NAME(constant)                                                                       \
    coherdma::registry::error_name {                                                               \
        constant, #constant                                                                        \
    }

} // namespace coherdma::registry

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "dat.hpp"

namespace coherdma::registry {

/// What a DAT_RETURN is made of, and its name in dat_error.h.
struct named {
    DAT_RETURN value;
    const char *name;
};
/// A macro, so that nothing is under a wrong name.
#define NAMED(constant)                                                                            \
    coherdma::registry::named {                                                                    \
        constant, #constant                                                                        \
    }

} // namespace coherdma::registry

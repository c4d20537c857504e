// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <dat2/dat_registry.h>
#include <dat2/udat.h>

namespace coherdma::registry {

/// A complete error: class, type and what exactly was wrong.
constexpr DAT_RETURN error(DAT_RETURN_TYPE type,
                           DAT_RETURN_SUBTYPE subtype = DAT_NO_SUBTYPE) noexcept {
    return DAT_MAKE_ERROR(type, subtype);
}

} // namespace coherdma::registry

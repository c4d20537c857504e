// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The version of DAT that a registry serves. There are two, libdat2 for 2.0 and libdat for 1.2, of
// the same sources: each is compiled once with the headers of either, whose names are the same and
// whose layouts and numbers are not. What more tells them apart is in version.hpp, and in the
// folders dat1/ and dat2/.
#pragma once

#ifdef COHERDMA_DAT1
#    include <dat/dat_registry.h>
#    include <dat/udat.h>
#else
#    include <dat2/dat_registry.h>
#    include <dat2/udat.h>
#endif

namespace coherdma::registry {

/// A complete error: class, type and what exactly was wrong.
constexpr DAT_RETURN error(DAT_RETURN_TYPE type,
                           DAT_RETURN_SUBTYPE subtype = DAT_NO_SUBTYPE) noexcept {
    return DAT_MAKE_ERROR(type, subtype);
}

} // namespace coherdma::registry

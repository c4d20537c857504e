// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The DAT headers of the version that a registry serves. The same sources are compiled twice:
// libdat2 with the headers of 2.0, libdat with those of 1.2, which have the same names with other
// layouts and values. version.hpp, dat1/ and dat2/ have the differences in behavior.
#pragma once

#ifdef COHERDMA_DAT1
#    include <dat/dat_registry.h>
#    include <dat/udat.h>
#else
#    include <dat2/dat_registry.h>
#    include <dat2/udat.h>
#endif

namespace coherdma::registry {

constexpr DAT_RETURN make_error(DAT_RETURN_TYPE type,
                                DAT_RETURN_SUBTYPE subtype = DAT_NO_SUBTYPE) noexcept {
    return DAT_MAKE_ERROR(type, subtype);
}

} // namespace coherdma::registry

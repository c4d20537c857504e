// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The DAT version of the registry under test. Common tests are compiled for each version.
#pragma once

#ifdef COHERDMA_DAT1
#    include <dat/dat_registry.h>
#else
#    include <dat2/dat_registry.h>
#endif

namespace registry_test {

constexpr DAT_UINT32 MAJOR = DAT_VERSION_MAJOR, MINOR = DAT_VERSION_MINOR;
#ifdef COHERDMA_DAT1
constexpr char LIBRARY[] = "libdat", API[] = "u1.2", OTHER_API[] = "u2.0";
constexpr DAT_UINT32 OTHER_MAJOR = 2, OTHER_MINOR = 0;
#else
constexpr char LIBRARY[] = "libdat2", API[] = "u2.0", OTHER_API[] = "u1.2";
constexpr DAT_UINT32 OTHER_MAJOR = 1, OTHER_MINOR = 2;
#endif

} // namespace registry_test

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// The provider's tables of functions, one per DAT version.
#pragma once

#include "dat1_table.hpp"

namespace coherdma::dapl {

/// Every function of DAT 2.0. ia_open_func gets only the IA's name, so each thread safety has a
/// function of its own, which tells apart two dat.conf entries of one name.
DAT_PROVIDER make_dat2_table(const char *name, DAT_BOOLEAN thread_safe) noexcept;

/// Every function of DAT 1.2. Its calls are not counted.
dat1::provider make_dat1_table(const char *name, DAT_BOOLEAN thread_safe) noexcept;

} // namespace coherdma::dapl

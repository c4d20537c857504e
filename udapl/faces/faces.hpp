// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Tables of functions, for registries of one version of DAT each.
#pragma once

#include "dat1_table.hpp"

namespace coherdma::dapl {

/// All of DAT 2.0, nothing missing. A registry opens an IA by its name alone, so which of two lines
/// of dat.conf is meant only the function tells that it calls.
DAT_PROVIDER table_of_dat2(const char *name, DAT_BOOLEAN thread_safe) noexcept;

/// All of DAT 1.2. It has no calls beyond, so `extension` is NULL, and nothing is counted.
dat1::provider table_of_dat1(const char *name, DAT_BOOLEAN thread_safe) noexcept;

} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Tables of functions, for registries of one version of DAT each.
#pragma once

#include <dat2/dat_registry.h>
#include <dat2/udat.h>

namespace coherdma::dapl {

/// All of DAT 2.0, nothing missing. A registry opens an IA by its name alone, so which of two lines
/// of dat.conf is meant only the function tells that it calls.
DAT_PROVIDER table_of_dat2(const char *name, DAT_BOOLEAN thread_safe) noexcept;

} // namespace coherdma::dapl

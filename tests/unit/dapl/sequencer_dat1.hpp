// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <dat2/dat_redirection.h>
#include <dat2/udat_redirection.h>

/// From now on the functions of this provider's table of DAT 2.0 call those of its table of 1.2:
/// they convert the arguments, and what the functions of 1.2 store, to the other version's types.
void route_to_dat1(DAT_PROVIDER &table);

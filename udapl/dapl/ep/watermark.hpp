// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Counts an EP's completed receives of an SRQ that wait in its EVD's queue, for the high
// watermarks.
#pragma once

#include <dat2/udat.h>

namespace coherdma::dapl {

struct dapl_ep;

/// Compares the count with the watermarks.
void check_watermarks(dapl_ep &ep) noexcept;

} // namespace coherdma::dapl

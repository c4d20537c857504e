// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// How many receives of an SRQ an endpoint has filled that the program has not taken yet. It is
// known of those that were moved to an EVD's queue; both are called with the EVD's lock.
#pragma once

#include <dat2/udat.h>

namespace coherdma::dapl {

struct ep;

/// The event has come to the queue. Where that crosses a mark, the program is told, or the
/// connection ended.
void came(const DAT_EVENT &event) noexcept;
/// The program takes it.
void went(const DAT_EVENT &event) noexcept;

/// New marks count from now on.
void compare_with_marks(ep &one) noexcept;

} // namespace coherdma::dapl

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <dat2/udat.h>

namespace coherdma::dapl::cm {

/// Of the consumer, in each direction: what is left of InfiniBand's 92 bytes of a request when the
/// connection manager has taken its own.
inline constexpr DAT_COUNT most_private_data = 56;

} // namespace coherdma::dapl::cm

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <dat2/udat.h>

namespace coherdma::dapl {

/// Bytes of private data for the consumer in each direction: InfiniBand's 92 of a request, less
/// librdmacm's header.
inline constexpr DAT_COUNT max_private_data = 56;

} // namespace coherdma::dapl

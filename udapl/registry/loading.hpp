// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Which library serves a name.
#pragma once

#include "libraries.hpp"
#include "nearest.hpp"
#include "records.hpp"

namespace coherdma::registry {

/// A library that waits to be told whom it is to serve.
struct candidate {
    library from;
    const char *instance = ""; ///< what it is to be told; of dat.conf, or of the records below
};

/// Under the registry's lock. The first record that is right and whose library can be loaded
/// decides; dat.conf's go before devices, which are listed in live. Without a library, status says
/// why, for which why has seen all other names.
candidate find_candidate(const DAT_PROVIDER_INFO &wanted, records &live, nearest &why,
                         DAT_RETURN &status) noexcept;

} // namespace coherdma::registry

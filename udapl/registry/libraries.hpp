// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Loading of libraries.
#pragma once

#include "dat.hpp"

namespace coherdma::registry {

/// A provider's library with its two entries.
struct library {
    void *handle = nullptr; ///< NULL: there is none
    DAT_PROVIDER_INIT_FUNC init = nullptr;
    DAT_PROVIDER_FINI_FUNC fini = nullptr;
};

/// Its symbols become everybody's, as providers expect of a registry.
library load_provider(const char *file) noexcept;

/// One of this project, by the loader's search or beside this one; as it is called without a path.
library load_our_provider() noexcept;
void *load_libcoherdma() noexcept;

} // namespace coherdma::registry

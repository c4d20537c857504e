// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include "dat.hpp"

namespace coherdma::registry {

inline constexpr char COHERDMA_PROVIDER[] = "libdaplcoherdma.so.2";

struct provider_library {
    void *handle = nullptr; ///< of dlopen; NULL if the library could not be loaded
    DAT_PROVIDER_INIT_FUNC init = nullptr;
    DAT_PROVIDER_FINI_FUNC fini = nullptr;
};

/// With RTLD_GLOBAL, as providers expect of a registry.
provider_library load_provider_library(const char *file) noexcept;

/// These libraries are searched for by dlopen, then in the folder of this library.
provider_library load_coherdma_provider() noexcept;
void *load_libcoherdma() noexcept;

} // namespace coherdma::registry

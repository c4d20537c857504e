// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Functions that DAT's headers declare and OFED's libdat2 does not export. They are looked up as
// they are needed, so that the other cases run with it, too.

#pragma once

#include "check.hpp"

#include <dlfcn.h>

namespace conform {

/// The function, or the case ends.
template <class Function>
Function *require_symbol(const char *name, source_location loc = current_location()) {
    void *symbol = dlsym(RTLD_DEFAULT, name);
    require(symbol != nullptr, concat("libdat2 does not export ", name), loc);
    return reinterpret_cast<Function *>(symbol);
}

/// By its name: EXPORTED(dat_csp_free)(handle).
#define EXPORTED(function) conform::require_symbol<decltype(function)>(#function)

} // namespace conform

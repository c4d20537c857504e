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
Function *exported(const char *name, spot at = here()) {
    void *found = dlsym(RTLD_DEFAULT, name);
    need(found != nullptr, text("libdat2 does not export ", name), at);
    return reinterpret_cast<Function *>(found);
}

/// By its name: EXPORTED(dat_csp_free)(handle).
#define EXPORTED(function) conform::exported<decltype(function)>(#function)

} // namespace conform

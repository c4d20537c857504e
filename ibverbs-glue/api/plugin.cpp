// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "plugin.hpp"

#include <coherdma/coherdma.h>
#include <coherdma/experimental.h>
#include <cstdlib>
#include <dlfcn.h>

namespace {

/// COHERDMA_LIBDIR if only a relative path is known: the working directory may have changed since.
std::string library_folder() {
    Dl_info info = {};
    if (dladdr(reinterpret_cast<void *>(coherdma_use_provider), &info) == 0 ||
        info.dli_fname[0] != '/')
        return COHERDMA_LIBDIR;
    const std::string file = info.dli_fname;
    return file.substr(0, file.rfind('/'));
}

} // namespace

std::string coherdma::api::find_plugin() {
    if (const char *path = secure_getenv("COHERDMA_PROVIDER"); path && *path)
        return path;
    // The same file for all releases of libibverbs; its other names are links to it.
    return library_folder() + "/libibverbs/libcoherdma-rdmav34.so";
}

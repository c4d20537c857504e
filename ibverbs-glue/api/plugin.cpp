// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "plugin.hpp"

#include <coherdma/coherdma.h>
#include <cstdlib>
#include <dlfcn.h>

namespace {

/// Without a relative path, which may have led elsewhere when the library was loaded.
std::string folder_of_library() {
    Dl_info about = {};
    if (dladdr(reinterpret_cast<void *>(coherdma_use_provider), &about) == 0 ||
        about.dli_fname[0] != '/')
        return COHERDMA_LIBDIR;
    const std::string file = about.dli_fname;
    return file.substr(0, file.rfind('/'));
}

} // namespace

std::string coherdma::api::plugin_file() {
    if (const char *named = secure_getenv("COHERDMA_PROVIDER"); named && *named)
        return named;
    // One file serves every release of libibverbs; its other names lead to this one.
    return folder_of_library() + "/libibverbs/libcoherdma-rdmav34.so";
}

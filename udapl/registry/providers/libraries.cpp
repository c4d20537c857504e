// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "libraries.hpp"
#include "debug.hpp"

#include <climits>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>

namespace coherdma::registry {
namespace {

/// The path by which this library was loaded.
const char *own_path() noexcept {
    Dl_info info = {};
    return dladdr(reinterpret_cast<void *>(dat_ia_openv), &info) != 0 ? info.dli_fname : "";
}

void *load_library(const char *file, int flags) noexcept {
    void *handle = *file ? dlopen(file, flags) : nullptr; // dlopen("") is the program itself
    if (!handle && is_dbg_enabled(dbg_type::entries)) {
        const char *reason = *file ? dlerror() : nullptr;
        dbg_print(dbg_type::entries, "cannot load '%s': %s", file, reason ? reason : "empty name");
    }
    return handle;
}

/// Searches as dlopen() does, then in the folder of this library.
void *load_coherdma_library(const char *name, int flags) noexcept {
    if (void *handle = load_library(name, flags))
        return handle;
    const char *path = own_path();
    const char *slash = std::strrchr(path, '/');
    if (*path != '/' || !slash) // the working directory may have changed
        return nullptr;
    char sibling[PATH_MAX];
    const int size = std::snprintf(sibling, sizeof sibling, "%.*s/%s",
                                   static_cast<int>(slash - path), path, name);
    return size < static_cast<int>(sizeof sibling) ? load_library(sibling, flags) : nullptr;
}

/// Closes the library if it lacks init or fini.
provider_library find_entry_points(void *handle, const char *file) noexcept {
    if (!handle)
        return {};
    const provider_library library = {
        handle,
        reinterpret_cast<DAT_PROVIDER_INIT_FUNC>(dlsym(handle, DAT_PROVIDER_INIT_FUNC_STR)),
        reinterpret_cast<DAT_PROVIDER_FINI_FUNC>(dlsym(handle, DAT_PROVIDER_FINI_FUNC_STR)),
    };
    if (!library.init || !library.fini) {
        dbg_print(dbg_type::entries,
                  "'%s' is not a provider: it lacks " DAT_PROVIDER_INIT_FUNC_STR
                  " or " DAT_PROVIDER_FINI_FUNC_STR,
                  file);
        dlclose(handle);
        return {};
    }
    return library;
}

/// Makes this library's symbols global. Providers are not linked to a registry and find its
/// functions in the global scope, which lacks them if the program has loaded this library with
/// RTLD_LOCAL.
void make_symbols_global() noexcept {
    if (void *handle = dlopen(own_path(), RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL))
        dlclose(handle);
}

constexpr int PROVIDER_FLAGS = RTLD_NOW | RTLD_GLOBAL;

} // namespace

provider_library load_provider_library(const char *file) noexcept {
    make_symbols_global();
    return find_entry_points(load_library(file, PROVIDER_FLAGS), file);
}

provider_library load_coherdma_provider() noexcept {
    make_symbols_global();
    return find_entry_points(load_coherdma_library(COHERDMA_PROVIDER, PROVIDER_FLAGS),
                             COHERDMA_PROVIDER);
}

void *load_libcoherdma() noexcept {
    return load_coherdma_library("libcoherdma.so.1", RTLD_NOW | RTLD_LOCAL);
}

} // namespace coherdma::registry

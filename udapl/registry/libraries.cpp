// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "libraries.hpp"
#include "debug.hpp"
#include "records.hpp"

#include <climits>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>

namespace coherdma::registry {
namespace {

const char *our_own_file() noexcept {
    Dl_info about = {};
    return dladdr(reinterpret_cast<void *>(dat_ia_openv), &about) != 0 ? about.dli_fname : "";
}

void *load(const char *file, int flags) noexcept {
    void *found = *file ? dlopen(file, flags) : nullptr; // "" would be the program
    if (!found && wanted(kind::records)) {
        const char *reason = *file ? dlerror() : nullptr;
        say(kind::records, "cannot load '%s': %s", file, reason ? reason : "that is no name");
    }
    return found;
}

void *load_ours(const char *name, int flags) noexcept {
    if (void *found = load(name, flags))
        return found;
    const char *own = our_own_file();
    const char *slash = std::strrchr(own, '/');
    if (*own != '/' || !slash) // a relative path may lead elsewhere by now
        return nullptr;
    char beside[PATH_MAX];
    const int size =
        std::snprintf(beside, sizeof beside, "%.*s/%s", static_cast<int>(slash - own), own, name);
    return size < static_cast<int>(sizeof beside) ? load(beside, flags) : nullptr;
}

library with_entries(void *handle, const char *file) noexcept {
    if (!handle)
        return {};
    library found = {
        handle,
        reinterpret_cast<DAT_PROVIDER_INIT_FUNC>(dlsym(handle, DAT_PROVIDER_INIT_FUNC_STR)),
        reinterpret_cast<DAT_PROVIDER_FINI_FUNC>(dlsym(handle, DAT_PROVIDER_FINI_FUNC_STR)),
    };
    if (!found.init || !found.fini) {
        say(kind::records,
            "'%s' is no provider: it lacks " DAT_PROVIDER_INIT_FUNC_STR
            " or " DAT_PROVIDER_FINI_FUNC_STR,
            file);
        dlclose(handle);
        return {};
    }
    return found;
}

/// Providers are not linked to a registry and look for its functions among all that is loaded;
/// there they are missing if the program loaded this library for itself only.
void let_providers_see_us() noexcept {
    if (void *self = dlopen(our_own_file(), RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL))
        dlclose(self);
}

constexpr int FOR_ALL = RTLD_NOW | RTLD_GLOBAL;

} // namespace

library load_provider(const char *file) noexcept {
    let_providers_see_us();
    return with_entries(load(file, FOR_ALL), file);
}

library load_our_provider() noexcept {
    let_providers_see_us();
    return with_entries(load_ours(OUR_PROVIDER, FOR_ALL), OUR_PROVIDER);
}

void *load_libcoherdma() noexcept {
    return load_ours("libcoherdma.so.1", RTLD_NOW | RTLD_LOCAL);
}

} // namespace coherdma::registry

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// libibverbs asks the plugins that a process has loaded before it loads any itself, so to load ours
// in time is all that it takes.

#include "error.hpp"
#include "plugin.hpp"

#include <cerrno>
#include <coherdma/coherdma.h>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <string_view>
#include <unistd.h>

namespace {

using coherdma::api::fail;

struct wish {
    const char *variable = nullptr;
    std::string_view first; ///< of the plugins in it
};

/// What the user wants libibverbs to load first; it looks at the second variable without the first.
wish of_user() {
    for (const char *variable : {"RDMAV_DRIVERS", "IBV_DRIVERS"}) {
        const char *value = secure_getenv(variable);
        if (value && *value) {
            const std::string_view all = value;
            return {variable, all.substr(0, all.find_first_of(":;"))};
        }
        if (value)
            break;
    }
    return {};
}

int use() {
    const wish wanted = of_user();
    const std::string_view name = wanted.first.substr(wanted.first.rfind('/') + 1);
    if (wanted.variable && name != "coherdma" && name != "libcoherdma")
        return fail(ECANCELED, "%s=%s in the environment says what serves devices; unset it first",
                    wanted.variable, secure_getenv(wanted.variable));
    if (wanted.variable)
        return 0; // libibverbs will load it, from where the user wants
    const std::string file = coherdma::api::plugin_file();
    if (file.front() != '/')
        return fail(EINVAL, "COHERDMA_PROVIDER is '%s', which is not an absolute path",
                    file.c_str());
    if (access(file.c_str(), R_OK) != 0)
        return fail(errno, "cannot read the provider plugin %s: %s", file.c_str(),
                    std::strerror(errno));
    // Never closed: libibverbs keeps pointers into it.
    if (!dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL))
        return fail(ENOEXEC, "cannot load the provider plugin: %s", dlerror());
    return 0;
}

} // namespace

int coherdma_use_provider(void) {
    try {
        return use();
    } catch (...) {
        return fail(ENOMEM, "no memory left");
    }
}

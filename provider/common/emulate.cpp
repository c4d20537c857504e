// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "emulate.hpp"

#include "cache/emulated.hpp"
#include "emulation/interface.hpp"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <unistd.h>

#ifndef COHERDMA_SYSCONFDIR
#    define COHERDMA_SYSCONFDIR "/etc"
#endif

namespace coherdma::provider {
namespace {

bool is_set(const char *value) noexcept {
    return value != nullptr && *value != '\0';
}

/// What the module reads then; a setuid program is never asked for it by its environment.
bool may_be_wanted() noexcept {
    if (is_set(secure_getenv("COHERDMA_EMULATE")))
        return true;
    const char *const named = secure_getenv("COHERDMA_CONFIG");
    return access(is_set(named) ? named : COHERDMA_SYSCONFDIR "/coherdma.conf", R_OK) == 0;
}

/// The module lies beside this plugin.
void *load() noexcept {
    Dl_info about = {};
    char path[PATH_MAX];
    if (dladdr(reinterpret_cast<void *>(emulate), &about) == 0)
        return nullptr;
    const char *const slash = std::strrchr(about.dli_fname, '/');
    const std::size_t folder =
        slash != nullptr ? static_cast<std::size_t>(slash - about.dli_fname) + 1 : 0;
    if (folder + std::strlen(cache::emulation_file) >= sizeof path)
        return nullptr;
    std::memcpy(path, about.dli_fname, folder);
    std::strcpy(path + folder, cache::emulation_file);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

} // namespace

int emulate(ibv_context *context, rdma_driver_id driver, abi::operations &able) noexcept {
    if (!may_be_wanted())
        return 0;
    void *const module = load();
    auto *const begin =
        module != nullptr
            ? reinterpret_cast<emulation::begin_function *>(dlsym(module, emulation::begin_name))
            : nullptr;
    if (begin == nullptr) {
        const char *const why = dlerror();
        if (!is_set(secure_getenv("COHERDMA_EMULATE")))
            return 0; // the configuration is there for other things, perhaps
        // To those who asked for it, so not by the log that others switch on.
        dprintf(STDERR_FILENO, "coherdma: %s cannot be emulated, as COHERDMA_EMULATE wants: %s\n",
                context->device->name, why != nullptr ? why : "its module is not there");
        return ENOENT;
    }
    const emulation::handover all = {
        sizeof all, driver, &able, [](abi::verbs_mr *region) { return library().dereg_mr(region); },
        abi::set_operations};
    return begin(context, &all);
}

} // namespace coherdma::provider

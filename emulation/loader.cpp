// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "loader.hpp"

#include "abi/abi.hpp"
#include "interface.hpp"

#include <atomic>
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

namespace coherdma::emulation {
namespace {

constexpr const char *emulation_file = "libcoherdma-emulation.so";

/// The cache that the module emulates; nullptr: no device of this process is emulated.
constinit std::atomic<const cache::emulated_cache *> emulated_cache = nullptr;

bool is_not_empty(const char *value) noexcept {
    return value != nullptr && *value != '\0';
}

/// Whether a setting that the module reads may exist. The environment of a setuid program is
/// ignored.
bool may_be_requested() noexcept {
    if (is_not_empty(secure_getenv("COHERDMA_EMULATE")))
        return true;
    const char *const config = secure_getenv("COHERDMA_CONFIG");
    return access(is_not_empty(config) ? config : COHERDMA_SYSCONFDIR "/coherdma.conf", R_OK) == 0;
}

/// Loads the emulation module from the plugin's directory.
void *load_module() noexcept {
    Dl_info info = {};
    char path[PATH_MAX];
    if (dladdr(reinterpret_cast<void *>(attach), &info) == 0)
        return nullptr;
    const char *const slash = std::strrchr(info.dli_fname, '/');
    const std::size_t dir_length =
        slash != nullptr ? static_cast<std::size_t>(slash - info.dli_fname) + 1 : 0;
    if (dir_length + std::strlen(emulation_file) >= sizeof path)
        return nullptr;
    std::memcpy(path, info.dli_fname, dir_length);
    std::strcpy(path + dir_length, emulation_file);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

} // namespace

/// Emulates the device, if the user requests that: the module's begin function replaces some of the
/// operations in ops. Returns 0, also if no emulation is requested, or an errno.
int attach(ibv_context *context, rdma_driver_id driver_id, abi::verbs_context_ops &ops) noexcept {
    if (!may_be_requested())
        return 0;
    void *const module = load_module();
    auto *const begin =
        module != nullptr ? reinterpret_cast<begin_function *>(dlsym(module, begin_name)) : nullptr;
    if (begin == nullptr) {
        const char *const reason = dlerror();
        if (!is_not_empty(secure_getenv("COHERDMA_EMULATE")))
            return 0; // coherdma.conf exists, but need not request emulation
        // On stderr, since the user asked for it: the log may be off.
        dprintf(
            STDERR_FILENO, "coherdma: %s cannot be emulated, as COHERDMA_EMULATE requests: %s\n",
            context->device->name, reason != nullptr ? reason : "the emulation module is missing");
        return ENOENT;
    }
    const cache::emulated_cache *cache = nullptr; // set by begin() if the device is emulated
    const module_args arguments = {
        sizeof arguments,
        driver_id,
        &ops,
        [](abi::verbs_mr *mr) { return abi::libibverbs().ibv_cmd_dereg_mr(mr); },
        abi::set_ops,
        &cache};
    const int error = begin(context, &arguments);
    if (cache != nullptr)
        emulated_cache.store(cache, std::memory_order_release);
    return error;
}

/// nullptr: the device is not emulated.
const cache::emulated_cache *find_cache(const ibv_context *context) noexcept {
    const cache::emulated_cache *const cache = emulated_cache.load(std::memory_order_acquire);
    return cache != nullptr && cache->is_emulated(context) ? cache : nullptr;
}

} // namespace coherdma::emulation

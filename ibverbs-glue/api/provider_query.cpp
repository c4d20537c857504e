// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "provider_query.hpp"
#include "error.hpp"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <infiniband/verbs.h>

namespace coherdma::api {
namespace {

/// A function that the provider that serves the context exports; nullptr if it has none. By symbol
/// version: libcoherdma, which a provider may be linked with, exports a function of the same name.
void *find_provider_function(const ibv_context *context, const char *name,
                             const char *version) noexcept {
    // The plugin is the object with this operation: the emulation replaces others, but not this.
    auto *const operation = reinterpret_cast<void *>(context->ops.req_notify_cq);
    Dl_info info = {};
    if (dladdr(operation, &info) == 0)
        return nullptr;
    void *const plugin = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    void *const function = plugin != nullptr ? dlvsym(plugin, name, version) : nullptr;
    if (function == nullptr)
        dlerror(); // discards the error
    if (plugin != nullptr)
        dlclose(plugin);
    return function;
}

} // namespace

int query_provider(ibv_context *context, coherdmadv_device_attr *attr,
                   std::uint32_t inlen) noexcept {
    auto *const query = reinterpret_cast<decltype(coherdmadv_query_device) *>(
        find_provider_function(context, "coherdmadv_query_device", "COHERDMADV_1.0"));
    return query != nullptr ? query(context, attr, inlen) : EOPNOTSUPP;
}

/// nullptr: the device is not emulated, or by another release of the emulation.
const cache::emulated_cache *find_emulated_cache(const ibv_context *context) noexcept {
    auto *const find =
        reinterpret_cast<cache::find_emulated_cache_function *>(find_provider_function(
            context, cache::find_emulated_cache_name, cache::find_emulated_cache_version));
    const cache::emulated_cache *const emulated = find != nullptr ? find(context) : nullptr;
    return emulated != nullptr && emulated->size == sizeof *emulated ? emulated : nullptr;
}

} // namespace coherdma::api

/// Calls the function of that name of the provider that serves the context.
int coherdmadv_query_device(ibv_context *context, coherdmadv_device_attr *attr,
                            std::uint32_t inlen) {
    using coherdma::api::fail;
    if (!context)
        return fail(EINVAL, "context is NULL");
    const int error = coherdma::api::query_provider(context, attr, inlen);
    if (error == 0)
        return 0;
    const char *const name = ibv_get_device_name(context->device);
    if (error == EOPNOTSUPP)
        return fail(error,
                    "%s is not served by coherdma's provider, which serves rxe and siw devices "
                    "if it is selected: by coherdma_use_provider() before the first "
                    "ibv_get_device_list(), or for the system by: coherdma enable",
                    name);
    if (error == EINVAL)
        return fail(error, "%s: attr is NULL, or inlen %u excludes comp_mask", name, inlen);
    return fail(error, "%s: cannot query the provider: %s", name, std::strerror(error));
}

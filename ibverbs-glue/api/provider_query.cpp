// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "provider_query.hpp"
#include "error.hpp"

#include <cerrno>
#include <coherdma/coherdma.h>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <infiniband/verbs.h>

namespace coherdma::api {
namespace {

/// The driver's req_notify_cq, if the interposer has replaced it; else nullptr.
void *find_replaced_operation(const ibv_context *context) noexcept {
    void *const interposer = dlopen("libcoherdma-interposer.so", RTLD_LAZY | RTLD_NOLOAD);
    if (interposer == nullptr) {
        dlerror(); // discards the error
        return nullptr;
    }
    using find_function = void *(const ibv_context *);
    auto *const find = reinterpret_cast<find_function *>(
        dlsym(interposer, "coherdma_interposer_find_req_notify_cq"));
    dlclose(interposer);
    return find != nullptr ? find(context) : nullptr;
}

/// A function that the provider that serves the context exports; nullptr if it has none. By symbol
/// version: libcoherdma, which a provider may be linked with, exports a function of the same name.
void *find_provider_function(const ibv_context *context, const char *name,
                             const char *version) noexcept {
    // The plugin is the object with this operation.
    auto *operation = reinterpret_cast<void *>(context->ops.req_notify_cq);
    if (void *const replaced = find_replaced_operation(context))
        operation = replaced;
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

/// nullptr: the device is not emulated. It may be of another release, so that only size is known.
const cache::emulated_cache *find_any_emulated_cache(const ibv_context *context) noexcept {
    void *const module = dlopen(cache::emulation_soname, RTLD_LAZY | RTLD_NOLOAD);
    if (module == nullptr) {
        dlerror(); // discards the error
        return nullptr;
    }
    auto *const find = reinterpret_cast<cache::find_emulated_cache_function *>(
        dlsym(module, cache::find_emulated_cache_name));
    dlclose(module);
    return find != nullptr ? find(context) : nullptr;
}

bool is_of_this_release(const cache::emulated_cache *emulated) noexcept {
    return emulated != nullptr && emulated->size == sizeof *emulated;
}

/// The members of these groups that lie in the first inlen bytes of attr.
void set_emulated(const cache::emulated_cache &emulated, coherdmadv_device_attr &attr,
                  std::uint32_t inlen) noexcept {
    const bool is_known = is_of_this_release(&emulated);
    if (inlen >= offsetof(coherdmadv_device_attr, driver_id)) {
        attr.comp_mask |= COHERDMADV_DEVICE_ATTR_COHERENCY;
        attr.coherency = COHERDMA_NON_COHERENT;
        attr.line_size = is_known ? static_cast<std::uint32_t>(emulated.line_size()) : 0;
    }
    if (inlen >= offsetof(coherdmadv_device_attr, evidence)) {
        attr.comp_mask |= COHERDMADV_DEVICE_ATTR_MODE;
        std::snprintf(attr.mode, sizeof attr.mode, "%s", is_known ? emulated.mode() : "");
    }
    if (inlen >= sizeof attr) {
        attr.comp_mask |= COHERDMADV_DEVICE_ATTR_EVIDENCE;
        std::snprintf(attr.evidence, sizeof attr.evidence, "%s",
                      "coherdma emulates a non-coherent device");
    }
}

} // namespace

int query_provider(ibv_context *context, coherdmadv_device_attr *attr,
                   std::uint32_t inlen) noexcept {
    auto *const query = reinterpret_cast<decltype(coherdmadv_query_device) *>(
        find_provider_function(context, "coherdmadv_query_device", "COHERDMADV_1.0"));
    const int error = query != nullptr ? query(context, attr, inlen) : EOPNOTSUPP;
    const cache::emulated_cache *const emulated =
        error == 0 || error == EOPNOTSUPP ? find_any_emulated_cache(context) : nullptr;
    if (emulated == nullptr)
        return error;
    if (error == EOPNOTSUPP) {
        if (attr == nullptr || inlen < sizeof attr->comp_mask)
            return EINVAL;
        std::memset(static_cast<void *>(attr), 0, inlen);
    }
    set_emulated(*emulated, *attr, inlen);
    return 0;
}

const cache::emulated_cache *find_emulated_cache(const ibv_context *context) noexcept {
    const cache::emulated_cache *const emulated = find_any_emulated_cache(context);
    return is_of_this_release(emulated) ? emulated : nullptr;
}

} // namespace coherdma::api

/// Calls the function of that name of the provider that serves the context, and asks the emulation.
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

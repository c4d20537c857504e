// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "registrations.hpp"
#include "debug.hpp"
#include "handles.hpp"
#include "loading.hpp"
#include "lock.hpp"
#include "providers.hpp"

#include <cstring>
#include <dlfcn.h>
#include <new>

namespace coherdma::registry {
namespace {

registration *first = nullptr;

registration *find(const DAT_PROVIDER_INFO &wanted) noexcept {
    const auto same = [&wanted](const DAT_PROVIDER_INFO &info) {
        return std::strcmp(info.ia_name, wanted.ia_name) == 0 &&
               info.dapl_version_major == wanted.dapl_version_major &&
               info.dapl_version_minor == wanted.dapl_version_minor &&
               info.is_thread_safe == wanted.is_thread_safe;
    };
    registration *each = first;
    while (each && !same(each->info))
        each = each->next;
    return each;
}

registration *insert(const DAT_PROVIDER_INFO &info) noexcept {
    void *memory = std::malloc(sizeof(registration));
    if (!memory)
        return nullptr;
    auto *one = new (memory) registration;
    one->info = info;
    one->next = first;
    return first = one;
}

void erase(registration *which) noexcept {
    registration **link = &first;
    while (*link != which)
        link = &(*link)->next;
    *link = which->next;
    std::free(which->instance);
    std::free(which);
}

/// A provider that does not take itself off the list is taken off.
void unload(registration *which) noexcept {
    which->fini(&which->info);
    if (which->provider)
        release(which->provider);
    forget_all();
    dlclose(which->library);
    erase(which);
}

registration *start(const DAT_PROVIDER_INFO &wanted, const candidate &which,
                    DAT_RETURN &status) noexcept {
    registration *one = insert(wanted);
    char *instance = strdup(which.instance);
    if (!one || !instance) {
        if (one)
            erase(one);
        std::free(instance);
        dlclose(which.from.handle);
        status = error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
        return nullptr;
    }
    one->library = which.from.handle;
    one->fini = which.from.fini;
    one->instance = instance;
    which.from.init(&one->info, one->instance);
    if (one->provider)
        return one;
    // It is not told to end, which OFED's do not survive when they did not begin, and stays loaded:
    // who knows what it began.
    say(kind::records, "%s: the provider does not want to serve '%s'", wanted.ia_name, instance);
    erase(one);
    status = error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
    return nullptr;
}

registration *load(const DAT_PROVIDER_INFO &wanted, DAT_RETURN &status) noexcept {
    nearest why(wanted);
    for (const registration *each = first; each; each = each->next)
        why.look_at(each->info.ia_name, each->info.dapl_version_major,
                    each->info.dapl_version_minor);
    records live;
    const candidate found = find_candidate(wanted, live, why, status);
    return found.from.handle ? start(wanted, found, status) : nullptr;
}

} // namespace

bool make_info(const char *name, DAT_UINT32 major, DAT_UINT32 minor, DAT_BOOLEAN thread_safe,
               DAT_PROVIDER_INFO &into) noexcept {
    const std::size_t size = name ? strnlen(name, sizeof into.ia_name) : sizeof into.ia_name;
    if (size == sizeof into.ia_name)
        return false;
    std::memcpy(into.ia_name, name, size);
    into.dapl_version_major = major;
    into.dapl_version_minor = minor;
    into.is_thread_safe = thread_safe != DAT_FALSE ? DAT_TRUE : DAT_FALSE;
    return true;
}

registration *open_provider(const DAT_PROVIDER_INFO &wanted, DAT_RETURN &status) noexcept {
    registration *found = find(wanted);
    if (!found)
        found = load(wanted, status);
    if (found && !found->provider) { // its library asks for itself, before it has registered
        status = error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
        return nullptr;
    }
    if (found)
        ++found->opens;
    return found;
}

void close_provider(registration *which) noexcept {
    if (--which->opens == 0 && which->library)
        unload(which);
}

registration *queried(const DAT_PROVIDER *provider) noexcept {
    registration *each = first;
    while (each && (each->provider != provider || each->queries == 0))
        each = each->next;
    return each;
}

} // namespace coherdma::registry

using namespace coherdma::registry;

namespace {

/// Its key, if both are there. A table of the other version is laid out otherwise: it came to the
/// wrong one of two registries, where it must not be called.
DAT_RETURN key_of(const DAT_PROVIDER *provider, const DAT_PROVIDER_INFO *info,
                  DAT_PROVIDER_INFO &key) noexcept {
    if (!provider)
        return error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1);
    if (!info ||
        !make_info(info->ia_name, info->dapl_version_major, info->dapl_version_minor,
                   info->is_thread_safe, key) ||
        key.dapl_version_major != DAT_VERSION_MAJOR)
        return error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
    return DAT_SUCCESS;
}

} // namespace

DAT_RETURN dat_registry_add_provider(const DAT_PROVIDER *provider, const DAT_PROVIDER_INFO *info) {
    DAT_PROVIDER_INFO key = {};
    if (const DAT_RETURN status = key_of(provider, info, key); status != DAT_SUCCESS)
        return status;
    const locked lock;
    registration *found = find(key);
    if (found && found->provider)
        return error(DAT_PROVIDER_ALREADY_REGISTERED);
    if (!retain(provider))
        return error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    if (!found)
        found = insert(key);
    if (!found) {
        release(provider);
        return error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    }
    found->provider = provider;
    say(kind::providers, "'%s' is registered", key.ia_name);
    return DAT_SUCCESS;
}

DAT_RETURN dat_registry_remove_provider(const DAT_PROVIDER *provider,
                                        const DAT_PROVIDER_INFO *info) {
    DAT_PROVIDER_INFO key = {};
    if (const DAT_RETURN status = key_of(provider, info, key); status != DAT_SUCCESS)
        return status;
    const locked lock;
    registration *found = find(key);
    if (!found || !found->provider)
        return error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
    if (found->opens != 0)
        return error(DAT_PROVIDER_IN_USE);
    release(found->provider);
    found->provider = nullptr;
    if (!found->library)
        erase(found);
    say(kind::providers, "'%s' is no longer registered", key.ia_name);
    return DAT_SUCCESS;
}

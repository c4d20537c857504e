// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "provider_table.hpp"
#include "debug.hpp"
#include "handles/handles.hpp"
#include "load_provider.hpp"
#include "lock.hpp"
#include "provider_refs.hpp"

#include <cstring>
#include <dlfcn.h>
#include <new>

namespace coherdma::registry {
namespace {

provider_entry *first_entry = nullptr;

bool is_same_info(const DAT_PROVIDER_INFO &a, const DAT_PROVIDER_INFO &b) noexcept {
    return std::strcmp(a.ia_name, b.ia_name) == 0 && a.dapl_version_major == b.dapl_version_major &&
           a.dapl_version_minor == b.dapl_version_minor && a.is_thread_safe == b.is_thread_safe;
}

provider_entry *find_entry(const DAT_PROVIDER_INFO &info) noexcept {
    provider_entry *entry = first_entry;
    while (entry && !is_same_info(entry->info, info))
        entry = entry->next;
    return entry;
}

/// Adds an entry without a provider to the table. nullptr: no memory. Requires registry_lock.
provider_entry *insert_entry(const DAT_PROVIDER_INFO &info) noexcept {
    void *memory = std::malloc(sizeof(provider_entry));
    if (!memory)
        return nullptr;
    auto *entry = new (memory) provider_entry;
    entry->info = info;
    entry->next = first_entry;
    return first_entry = entry;
}

void erase_entry(provider_entry *entry) noexcept {
    provider_entry **link = &first_entry;
    while (*link != entry)
        link = &(*link)->next;
    *link = entry->next;
    std::free(entry->instance);
    std::free(entry);
}

/// Calls the library's fini function, closes the library and removes the entry. A provider that
/// does not unregister itself in fini is dropped.
void unload_entry(provider_entry *entry) noexcept {
    entry->fini(&entry->info);
    if (entry->provider)
        unref_provider(entry->provider);
    uncache_all_pages();
    dlclose(entry->library);
    erase_entry(entry);
}

/// Calls the library's init function, which must register a provider.
provider_entry *init_provider(const DAT_PROVIDER_INFO &info, const loaded_provider &loaded,
                              DAT_RETURN &status) noexcept {
    provider_entry *entry = insert_entry(info);
    char *instance = strdup(loaded.instance);
    if (!entry || !instance) {
        if (entry)
            erase_entry(entry);
        std::free(instance);
        dlclose(loaded.library.handle);
        status = make_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
        return nullptr;
    }
    entry->library = loaded.library.handle;
    entry->fini = loaded.library.fini;
    entry->instance = instance;
    loaded.library.init(&entry->info, entry->instance);
    if (entry->provider)
        return entry;
    // Not unloaded: OFED's providers crash in fini after a failed init, and what init has started
    // is not known.
    dbg_print(dbg_type::entries, "%s: the provider did not register for instance data '%s'",
              info.ia_name, instance);
    erase_entry(entry);
    status = make_error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
    return nullptr;
}

/// For a name that is not registered: loads its library, which registers it.
provider_entry *load_entry(const DAT_PROVIDER_INFO &info, DAT_RETURN &status) noexcept {
    best_match best(info);
    for (const provider_entry *entry = first_entry; entry; entry = entry->next)
        best.compare(entry->info.ia_name, entry->info.dapl_version_major,
                     entry->info.dapl_version_minor);
    dat_entries devices; // loaded.instance may point into it
    const loaded_provider loaded = load_provider(info, devices, best, status);
    return loaded.library.handle ? init_provider(info, loaded, status) : nullptr;
}

} // namespace

bool make_provider_info(const char *name, DAT_UINT32 major, DAT_UINT32 minor,
                        DAT_BOOLEAN thread_safe, DAT_PROVIDER_INFO &info) noexcept {
    const std::size_t size = name ? strnlen(name, sizeof info.ia_name) : sizeof info.ia_name;
    if (size == sizeof info.ia_name)
        return false;
    std::memcpy(info.ia_name, name, size);
    info.dapl_version_major = major;
    info.dapl_version_minor = minor;
    info.is_thread_safe = thread_safe != DAT_FALSE ? DAT_TRUE : DAT_FALSE;
    return true;
}

/// The first open loads the library. Requires registry_lock.
provider_entry *open_provider(const DAT_PROVIDER_INFO &info, DAT_RETURN &status) noexcept {
    provider_entry *entry = find_entry(info);
    if (!entry)
        entry = load_entry(info, status);
    if (entry && !entry->provider) { // opened by its own init function, before it has registered
        status = make_error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
        return nullptr;
    }
    if (entry)
        ++entry->num_opens;
    return entry;
}

void close_provider(provider_entry *entry) noexcept {
    if (--entry->num_opens == 0 && entry->library)
        unload_entry(entry);
}

provider_entry *find_open_query(const DAT_PROVIDER *provider) noexcept {
    provider_entry *entry = first_entry;
    while (entry && (entry->provider != provider || entry->num_queries == 0))
        entry = entry->next;
    return entry;
}

} // namespace coherdma::registry

using namespace coherdma::registry;

namespace {

/// Checks the arguments and copies info to key. A provider of the other DAT version is rejected:
/// its table has another layout and must not be called.
DAT_RETURN get_key(const DAT_PROVIDER *provider, const DAT_PROVIDER_INFO *info,
                   DAT_PROVIDER_INFO &key) noexcept {
    if (!provider)
        return make_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1);
    if (!info ||
        !make_provider_info(info->ia_name, info->dapl_version_major, info->dapl_version_minor,
                            info->is_thread_safe, key) ||
        key.dapl_version_major != DAT_VERSION_MAJOR)
        return make_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
    return DAT_SUCCESS;
}

} // namespace

/// Called by a program, or by a library's init function, for which init_provider() has made an
/// entry.
DAT_RETURN dat_registry_add_provider(const DAT_PROVIDER *provider, const DAT_PROVIDER_INFO *info) {
    DAT_PROVIDER_INFO key = {};
    if (const DAT_RETURN status = get_key(provider, info, key); status != DAT_SUCCESS)
        return status;
    const std::lock_guard guard(registry_lock);
    provider_entry *entry = find_entry(key);
    if (entry && entry->provider)
        return make_error(DAT_PROVIDER_ALREADY_REGISTERED);
    if (!ref_provider(provider))
        return make_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    if (!entry)
        entry = insert_entry(key);
    if (!entry) {
        unref_provider(provider);
        return make_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    }
    entry->provider = provider;
    dbg_print(dbg_type::providers, "%s: registered", key.ia_name);
    return DAT_SUCCESS;
}

DAT_RETURN dat_registry_remove_provider(const DAT_PROVIDER *provider,
                                        const DAT_PROVIDER_INFO *info) {
    DAT_PROVIDER_INFO key = {};
    if (const DAT_RETURN status = get_key(provider, info, key); status != DAT_SUCCESS)
        return status;
    const std::lock_guard guard(registry_lock);
    provider_entry *entry = find_entry(key);
    if (!entry || !entry->provider)
        return make_error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
    if (entry->num_opens != 0)
        return make_error(DAT_PROVIDER_IN_USE);
    unref_provider(entry->provider);
    entry->provider = nullptr;
    if (!entry->library) // else unload_entry() erases it
        erase_entry(entry);
    dbg_print(dbg_type::providers, "%s: unregistered", key.ia_name);
    return DAT_SUCCESS;
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "registry.hpp"

#include "tsan_ordering.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

namespace fake {

namespace {

std::mutex lock;

bool is_same_provider(const provider_entry &entry, const DAT_PROVIDER *table,
                      const DAT_PROVIDER_INFO &info) {
    return entry.table == table && std::strcmp(entry.info.ia_name, info.ia_name) == 0 &&
           entry.info.is_thread_safe == info.is_thread_safe;
}

} // namespace

registry &fake_registry() {
    static registry instance;
    return instance;
}

DAT_PROVIDER_INFO make_info(const std::string &name, bool thread_safe, DAT_UINT32 major,
                            DAT_UINT32 minor) {
    DAT_PROVIDER_INFO info = {};
    name.copy(info.ia_name, sizeof info.ia_name - 1);
    info.dapl_version_major = major;
    info.dapl_version_minor = minor;
    info.is_thread_safe = thread_safe ? DAT_TRUE : DAT_FALSE;
    return info;
}

const DAT_PROVIDER *find_table(const std::string &name) {
    for (const provider_entry &entry : fake_registry().providers)
        if (name == entry.info.ia_name)
            return entry.table;
    return nullptr;
}

} // namespace fake

using namespace fake;

extern "C" {

DAT_RETURN dat_registry_add_provider(const DAT_PROVIDER *provider, const DAT_PROVIDER_INFO *info) {
    const tsan_ignore ignore;
    const std::lock_guard guard(lock);
    if (fake_registry().add_result == DAT_SUCCESS)
        fake_registry().providers.push_back({provider, *info});
    return fake_registry().add_result;
}

DAT_RETURN dat_registry_remove_provider(const DAT_PROVIDER *provider,
                                        const DAT_PROVIDER_INFO *info) {
    const tsan_ignore ignore;
    const std::lock_guard guard(lock);
    const auto num_erased =
        std::erase_if(fake_registry().providers, [&](const provider_entry &entry) {
            return is_same_provider(entry, provider, *info);
        });
    return num_erased != 0 ? DAT_RETURN{DAT_SUCCESS} : DAT_CLASS_ERROR | DAT_PROVIDER_NOT_FOUND;
}

// The consumer's handle of a Provider's IA: a number, counted from 1 in the order of these calls.
DAT_RETURN dats_get_ia_handle(DAT_IA_HANDLE handle, DAT_IA_HANDLE *ia_number) {
    const tsan_ignore ignore;
    const std::lock_guard guard(lock);
    registry &state = fake_registry();
    if (!state.assign_handles)
        return DAT_CLASS_ERROR | DAT_INVALID_HANDLE;
    const auto it = std::find(state.ia_handles.begin(), state.ia_handles.end(), handle);
    *ia_number = reinterpret_cast<DAT_IA_HANDLE>(it - state.ia_handles.begin() + 1);
    if (it == state.ia_handles.end())
        state.ia_handles.push_back(handle);
    return DAT_SUCCESS;
}
}

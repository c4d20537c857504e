// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "registry.hpp"

#include "quiet.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>

namespace played {

namespace {

std::mutex guard;

bool same(const entry &one, const DAT_PROVIDER *table, const DAT_PROVIDER_INFO &info) {
    return one.table == table && std::strcmp(one.info.ia_name, info.ia_name) == 0 &&
           one.info.is_thread_safe == info.is_thread_safe;
}

} // namespace

registry &known_providers() {
    static registry one;
    return one;
}

DAT_PROVIDER_INFO info_of(const std::string &name, bool thread_safe, DAT_UINT32 major,
                          DAT_UINT32 minor) {
    DAT_PROVIDER_INFO info = {};
    name.copy(info.ia_name, sizeof info.ia_name - 1);
    info.dapl_version_major = major;
    info.dapl_version_minor = minor;
    info.is_thread_safe = thread_safe ? DAT_TRUE : DAT_FALSE;
    return info;
}

const DAT_PROVIDER *table_of(const std::string &name) {
    for (const entry &each : known_providers().added)
        if (name == each.info.ia_name)
            return each.table;
    return nullptr;
}

} // namespace played

using namespace played;

extern "C" {

DAT_RETURN dat_registry_add_provider(const DAT_PROVIDER *provider, const DAT_PROVIDER_INFO *info) {
    const quiet unseen;
    const std::lock_guard held(guard);
    if (known_providers().answer == DAT_SUCCESS)
        known_providers().added.push_back({provider, *info});
    return known_providers().answer;
}

DAT_RETURN dat_registry_remove_provider(const DAT_PROVIDER *provider,
                                        const DAT_PROVIDER_INFO *info) {
    const quiet unseen;
    const std::lock_guard held(guard);
    const auto gone = std::erase_if(known_providers().added,
                                    [&](const entry &each) { return same(each, provider, *info); });
    return gone != 0 ? DAT_RETURN{DAT_SUCCESS} : DAT_CLASS_ERROR | DAT_PROVIDER_NOT_FOUND;
}

DAT_RETURN dats_get_ia_handle(DAT_IA_HANDLE handle, DAT_IA_HANDLE *other) {
    const quiet unseen;
    const std::lock_guard held(guard);
    registry &all = known_providers();
    if (!all.gives_numbers)
        return DAT_CLASS_ERROR | DAT_INVALID_HANDLE;
    const auto found = std::find(all.numbers.begin(), all.numbers.end(), handle);
    *other = reinterpret_cast<DAT_IA_HANDLE>(found - all.numbers.begin() + 1);
    if (found == all.numbers.end())
        all.numbers.push_back(handle);
    return DAT_SUCCESS;
}
}

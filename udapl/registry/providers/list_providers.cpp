// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dat_registry_list_providers.

#include "entries/dat_entries.hpp"
#include "lock.hpp"
#include "provider_table.hpp"
#include "version.hpp"

namespace coherdma::registry {
namespace {

DAT_PROVIDER_INFO to_info(const dat_entry &entry) noexcept {
    DAT_PROVIDER_INFO info = {};
    make_provider_info(entry.name, entry.major, entry.minor,
                       entry.thread_safe ? DAT_TRUE : DAT_FALSE, info);
    return info;
}

/// Appends the entries that infos does not have; further entries with the same name, version and
/// thread safety are alternatives for the first. Returns false if memory is exhausted.
bool append_infos(const dat_entries &source, vector<DAT_PROVIDER_INFO> &infos) noexcept {
    for (const dat_entry &entry : source.entries) {
        bool is_new = LIST_OTHER_VERSION || matches_version(entry);
        for (const DAT_PROVIDER_INFO &info : infos)
            is_new = is_new && !matches_info(entry, info);
        if (is_new && !infos.push_back(to_info(entry)))
            return false;
    }
    return true;
}

} // namespace
} // namespace coherdma::registry

using namespace coherdma::registry;

DAT_RETURN dat_registry_list_providers(DAT_COUNT max_to_return, DAT_COUNT *entries_returned,
                                       DAT_PROVIDER_INFO *(dat_provider_list[])) {
    if (!entries_returned)
        return make_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
    vector<DAT_PROVIDER_INFO> infos;
    {
        const std::lock_guard guard(registry_lock);
        dat_entries devices;
        add_live_devices(devices);
        if (!append_infos(get_dat_conf(), infos) || !append_infos(devices, infos))
            return make_error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    }
    const auto num_infos = static_cast<DAT_COUNT>(infos.size());
    *entries_returned = num_infos;
    if (max_to_return <= 0)
        return make_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1);
    *entries_returned = num_infos < max_to_return ? num_infos : max_to_return;
    for (DAT_COUNT i = 0; i < *entries_returned; ++i) {
        if (!dat_provider_list || !dat_provider_list[i])
            return make_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
        *dat_provider_list[i] = infos[static_cast<std::size_t>(i)];
    }
    return DAT_SUCCESS;
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dat_registry_providers_related: whether two IA names belong to the same device.

#include "../lock.hpp"
#include "entries/dat_entries.hpp"
#include "handles/ia_table.hpp"

#include <cstring>

namespace coherdma::registry {
namespace {

bool has_entry(const dat_entries &source, const char *name) noexcept {
    for (const dat_entry &entry : source.entries) {
        if (std::strcmp(entry.name, name) == 0)
            return true;
    }
    return false;
}

bool is_listed(const char *name) noexcept {
    dat_entries devices;
    add_live_devices(devices);
    return has_entry(get_dat_conf(), name) || has_entry(devices, name);
}

/// Asks the provider of an open IA; DAT_HA_UNKNOWN if the name has no open IA.
DAT_HA_RELATIONSHIP query_related(const char *name, char *other_name) noexcept {
    const DAT_IA_HANDLE ia = find_ia_by_name(name);
    const DAT_PROVIDER *provider = ia ? find_provider(ia) : nullptr;
    if (!provider || !provider->ia_ha_related_func)
        return DAT_HA_UNKNOWN;
    DAT_BOOLEAN related = DAT_FALSE;
    if (provider->ia_ha_related_func(ia, other_name, &related) != DAT_SUCCESS)
        return DAT_HA_UNKNOWN;
    return related != DAT_FALSE ? DAT_HA_TRUE : DAT_HA_FALSE;
}

} // namespace
} // namespace coherdma::registry

using namespace coherdma::registry;

DAT_RETURN dat_registry_providers_related(const DAT_NAME_PTR first, const DAT_NAME_PTR second,
                                          DAT_HA_RELATIONSHIP *relationship) {
    if (!first)
        return make_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1);
    if (!second)
        return make_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
    if (!relationship)
        return make_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
    {
        const std::lock_guard guard(registry_lock);
        for (const char *name : {first, second}) {
            if (!find_ia_by_name(name) && !is_listed(name))
                return make_error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
        }
    }
    const DAT_HA_RELATIONSHIP first_answer = query_related(first, second);
    const DAT_HA_RELATIONSHIP second_answer = query_related(second, first);
    if (first_answer == DAT_HA_UNKNOWN || second_answer == DAT_HA_UNKNOWN)
        *relationship = first_answer == DAT_HA_UNKNOWN ? second_answer : first_answer;
    else
        *relationship = first_answer == second_answer ? first_answer : DAT_HA_CONFLICTING;
    return DAT_SUCCESS;
}

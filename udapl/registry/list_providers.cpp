// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a program may ask of the registry without opening anything.

#include "ias.hpp"
#include "lock.hpp"
#include "records.hpp"
#include "registrations.hpp"

#include <cstring>
#include <initializer_list>

namespace coherdma::registry {
namespace {

DAT_PROVIDER_INFO info_of(const record &which) noexcept {
    DAT_PROVIDER_INFO info = {};
    make_info(which.name, which.major, which.minor, which.thread_safe ? DAT_TRUE : DAT_FALSE, info);
    return info;
}

/// Those of both, each once: what comes later under the same name, version and thread safety is
/// another way to open the first.
bool add_new(const records &from, list<DAT_PROVIDER_INFO> &into) noexcept {
    for (const record &each : from.all) {
        bool is_new = true;
        for (const DAT_PROVIDER_INFO &known : into)
            is_new = is_new && !is_for(each, known);
        if (is_new && !into.add(info_of(each)))
            return false;
    }
    return true;
}

bool is_listed(const char *name) noexcept {
    records live;
    add_live_devices(live);
    for (const records *source : {&of_dat_conf(), static_cast<const records *>(&live)}) {
        for (const record &each : source->all) {
            if (std::strcmp(each.name, name) == 0)
                return true;
        }
    }
    return false;
}

/// What the provider of an open IA says of another name; unknown, if there is no such IA.
DAT_HA_RELATIONSHIP says_of(const char *name, char *other) noexcept {
    const DAT_IA_HANDLE ia = ia_named(name);
    const DAT_PROVIDER *provider = ia ? provider_of(ia) : nullptr;
    if (!provider || !provider->ia_ha_related_func)
        return DAT_HA_UNKNOWN;
    DAT_BOOLEAN answer = DAT_FALSE;
    if (provider->ia_ha_related_func(ia, other, &answer) != DAT_SUCCESS)
        return DAT_HA_UNKNOWN;
    return answer != DAT_FALSE ? DAT_HA_TRUE : DAT_HA_FALSE;
}

} // namespace
} // namespace coherdma::registry

using namespace coherdma::registry;

DAT_RETURN dat_registry_list_providers(DAT_COUNT max_to_return, DAT_COUNT *entries_returned,
                                       DAT_PROVIDER_INFO *(dat_provider_list[])) {
    if (!entries_returned)
        return error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
    list<DAT_PROVIDER_INFO> found;
    {
        const locked lock;
        records live;
        add_live_devices(live);
        if (!add_new(of_dat_conf(), found) || !add_new(live, found))
            return error(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
    }
    const auto count = static_cast<DAT_COUNT>(found.size());
    *entries_returned = count;
    if (max_to_return <= 0)
        return error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1);
    *entries_returned = count < max_to_return ? count : max_to_return;
    for (DAT_COUNT place = 0; place < *entries_returned; ++place) {
        if (!dat_provider_list || !dat_provider_list[place])
            return error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
        *dat_provider_list[place] = found[static_cast<std::size_t>(place)];
    }
    return DAT_SUCCESS;
}

DAT_RETURN dat_registry_providers_related(const DAT_NAME_PTR first, const DAT_NAME_PTR second,
                                          DAT_HA_RELATIONSHIP *relationship) {
    if (!first)
        return error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1);
    if (!second)
        return error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
    if (!relationship)
        return error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
    {
        const locked lock;
        for (const char *each : {first, second}) {
            if (!ia_named(each) && !is_listed(each))
                return error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
        }
    }
    const DAT_HA_RELATIONSHIP one = says_of(first, second), other = says_of(second, first);
    if (one == DAT_HA_UNKNOWN || other == DAT_HA_UNKNOWN)
        *relationship = one == DAT_HA_UNKNOWN ? other : one;
    else
        *relationship = one == other ? one : DAT_HA_CONFLICTING;
    return DAT_SUCCESS;
}

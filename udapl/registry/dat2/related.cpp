// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Whether two IAs lead to the same device.

#include "../ias.hpp"
#include "../lock.hpp"
#include "../records.hpp"

#include <cstring>

namespace coherdma::registry {
namespace {

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

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What a program may open.

#include "lock.hpp"
#include "records.hpp"
#include "registrations.hpp"
#include "version.hpp"

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
        bool is_new = LISTS_OTHER_VERSIONS || is_of_this_version(each);
        for (const DAT_PROVIDER_INFO &known : into)
            is_new = is_new && !is_for(each, known);
        if (is_new && !into.add(info_of(each)))
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

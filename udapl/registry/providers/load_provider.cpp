// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "load_provider.hpp"
#include "debug.hpp"

namespace coherdma::registry {
namespace {

bool is_usable(const dat_entry &entry, const DAT_PROVIDER_INFO &info) noexcept {
    return matches_version(entry) && matches_info(entry, info);
}

const dat_entry *find_usable(const dat_entries &source, const DAT_PROVIDER_INFO &info) noexcept {
    for (const dat_entry &entry : source.entries) {
        if (is_usable(entry, info))
            return &entry;
    }
    return nullptr;
}

void compare_entries(const dat_entries &source, best_match &best) noexcept {
    for (const dat_entry &entry : source.entries)
        best.compare(entry.name, entry.major, entry.minor);
}

} // namespace

/// Tries the entries of dat.conf for this name, then the live devices. best: the caller has
/// compared the registered providers; it gives the error if the name is not found.
loaded_provider load_provider(const DAT_PROVIDER_INFO &info, dat_entries &devices, best_match &best,
                              DAT_RETURN &status) noexcept {
    const dat_entries &conf = get_dat_conf();
    for (const dat_entry &entry : conf.entries) {
        if (!is_usable(entry, info))
            continue;
        if (const provider_library library = load_provider_library(entry.library); library.handle)
            return {library, entry.instance};
    }
    // The coherdma provider serves live devices, and entries whose libraries cannot be loaded.
    const dat_entry *entry = find_usable(conf, info);
    if (entry) {
        dbg_print(dbg_type::entries, "%s: no library of its entries can be loaded; trying %s",
                  info.ia_name, COHERDMA_PROVIDER);
    } else {
        add_live_devices(devices);
        entry = find_usable(devices, info);
    }
    if (!entry) {
        compare_entries(conf, best);
        compare_entries(devices, best);
        status = best.to_status();
        return {};
    }
    const provider_library library = load_coherdma_provider();
    status = make_error(DAT_PROVIDER_NOT_FOUND, DAT_NAME_NOT_REGISTERED);
    return {library, entry->instance};
}

} // namespace coherdma::registry

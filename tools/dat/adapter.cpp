// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "dat/adapter.hpp"
#include "dat/words.hpp"

#include <algorithm>
#include <cstring>
#include <dat2/dat_registry.h>
#include <dlfcn.h>
#include <string_view>

namespace tools::dat {

bool registered::openable() const {
    return major == DAT_VERSION_MAJOR;
}

std::vector<registered> registry() {
    // The library says how many it has only by filling all places that it was given.
    for (std::size_t places = 64;; places *= 2) {
        std::vector<DAT_PROVIDER_INFO> found(places);
        std::vector<DAT_PROVIDER_INFO *> list;
        for (DAT_PROVIDER_INFO &each : found)
            list.push_back(&each);
        DAT_COUNT count = 0;
        check(dat_registry_list_providers(static_cast<DAT_COUNT>(places), &count, list.data()),
              "cannot list the registry");
        if (static_cast<std::size_t>(count) >= places)
            continue;
        std::vector<registered> all;
        for (DAT_COUNT place = 0; place < count; ++place) {
            const DAT_PROVIDER_INFO &each = *list[static_cast<std::size_t>(place)];
            all.push_back({each.ia_name, each.dapl_version_major, each.dapl_version_minor,
                           each.is_thread_safe != DAT_FALSE});
        }
        return all;
    }
}

std::vector<std::string> openable_names() {
    std::vector<std::string> names;
    for (const registered &each : registry())
        if (each.openable() && std::find(names.begin(), names.end(), each.name) == names.end())
            names.push_back(each.name);
    return names;
}

adapter::adapter(const std::string &name)
    : called(name)
    , about(std::make_unique<attributes>()) {
    // Nothing of the name is changed, but the header has no const for it.
    check(dat_ia_open(const_cast<char *>(called.c_str()), 8, &async, opened.slot()),
          "cannot open IA " + name);
    check(dat_ia_query(get(), nullptr, DAT_IA_FIELD_ALL, &about->ia, DAT_PROVIDER_FIELD_ALL,
                       &about->provider),
          "cannot query IA " + name);
}

std::string adapter::device() const {
    const DAT_PROVIDER_ATTR &all = provider();
    for (DAT_COUNT place = 0; place < all.num_provider_specific_attr; ++place) {
        const DAT_NAMED_ATTR &each = all.provider_specific_attr[place];
        if (each.name && each.value && std::string_view(each.name) == "DAT_IB_DEVICE_NAME")
            return each.value;
    }
    return attr().adapter_name;
}

std::string adapter::library() const {
    // Every object of a provider begins with the table of its functions.
    if (!async)
        return {};
    const DAT_PROVIDER *const table = DAT_HANDLE_TO_PROVIDER(async);
    Dl_info where = {};
    if (dladdr(reinterpret_cast<const void *>(table->ia_open_func), &where) == 0 ||
        !where.dli_fname)
        return {};
    return where.dli_fname;
}

pz_handle adapter::make_pz() const {
    pz_handle made;
    check(dat_pz_create(get(), made.slot()), "cannot make a protection zone on " + called);
    return made;
}

evd_handle adapter::make_evd(DAT_COUNT length, DAT_EVD_FLAGS flags) const {
    evd_handle made;
    check(dat_evd_create(get(), length, DAT_HANDLE_NULL, flags, made.slot()),
          "cannot make an event dispatcher on " + called);
    return made;
}

} // namespace tools::dat

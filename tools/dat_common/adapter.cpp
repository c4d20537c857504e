// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "dat_common/adapter.hpp"
#include "dat_common/to_string.hpp"

#include <algorithm>
#include <cstring>
#include <dat2/dat_registry.h>
#include <dlfcn.h>
#include <string_view>

namespace tools::dat {

bool registered_ia::is_openable() const {
    return major == DAT_VERSION_MAJOR;
}

/// All IAs that dat_registry_list_providers knows.
std::vector<registered_ia> list_registry() {
    // dat_registry_list_providers fills at most `capacity` entries and reports only how many it
    // filled: a full list may be incomplete.
    for (std::size_t capacity = 64;; capacity *= 2) {
        std::vector<DAT_PROVIDER_INFO> infos(capacity);
        std::vector<DAT_PROVIDER_INFO *> info_list;
        for (DAT_PROVIDER_INFO &info : infos)
            info_list.push_back(&info);
        DAT_COUNT count = 0;
        check(
            dat_registry_list_providers(static_cast<DAT_COUNT>(capacity), &count, info_list.data()),
            "cannot list the registry");
        if (static_cast<std::size_t>(count) >= capacity)
            continue;
        std::vector<registered_ia> ias;
        for (DAT_COUNT i = 0; i < count; ++i) {
            const DAT_PROVIDER_INFO &info = *info_list[static_cast<std::size_t>(i)];
            ias.push_back({info.ia_name, info.dapl_version_major, info.dapl_version_minor,
                           info.is_thread_safe != DAT_FALSE});
        }
        return ias;
    }
}

std::vector<std::string> list_openable_ias() {
    std::vector<std::string> names;
    for (const registered_ia &ia : list_registry())
        if (ia.is_openable() && std::find(names.begin(), names.end(), ia.name) == names.end())
            names.push_back(ia.name);
    return names;
}

adapter::adapter(const std::string &name)
    : name_(name)
    , attr_(std::make_unique<attributes>()) {
    // dat_ia_open does not modify the name, but its parameter is not const.
    constexpr DAT_COUNT async_evd_qlen = 8;
    check(dat_ia_open(const_cast<char *>(name_.c_str()), async_evd_qlen, &async_evd_,
                      ia_.out_handle()),
          "cannot open IA " + name);
    check(dat_ia_query(get(), nullptr, DAT_IA_FIELD_ALL, &attr_->ia, DAT_PROVIDER_FIELD_ALL,
                       &attr_->provider),
          "cannot query IA " + name);
}

std::string adapter::device_name() const {
    for (DAT_COUNT i = 0; i < provider_attr().num_provider_specific_attr; ++i) {
        const DAT_NAMED_ATTR &named = provider_attr().provider_specific_attr[i];
        if (named.name && named.value && std::string_view(named.name) == "DAT_IB_DEVICE_NAME")
            return named.value;
    }
    return attr().adapter_name;
}

std::string adapter::provider_library() const {
    // The path of the library that has ia_open: every DAT handle points to its provider's table.
    if (!async_evd_)
        return {};
    const DAT_PROVIDER *const table = DAT_HANDLE_TO_PROVIDER(async_evd_);
    Dl_info info = {};
    if (dladdr(reinterpret_cast<const void *>(table->ia_open_func), &info) == 0 || !info.dli_fname)
        return {};
    return info.dli_fname;
}

pz_handle adapter::create_pz() const {
    pz_handle pz;
    check(dat_pz_create(get(), pz.out_handle()), "cannot create a PZ on " + name_);
    return pz;
}

evd_handle adapter::create_evd(DAT_COUNT qlen, DAT_EVD_FLAGS flags) const {
    evd_handle evd;
    check(dat_evd_create(get(), qlen, DAT_HANDLE_NULL, flags, evd.out_handle()),
          "cannot create an EVD on " + name_);
    return evd;
}

} // namespace tools::dat

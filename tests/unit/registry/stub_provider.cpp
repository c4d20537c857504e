// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "stub_provider.hpp"
#include "calls.hpp"

#include <cstdarg>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unistd.h>
#include <vector>

#define STUB_EXPORT extern "C" [[gnu::visibility("default")]]

namespace {

stub::state stub_state;

/// One provider for each IA name.
struct stub_provider {
    DAT_PROVIDER table = {};
    std::string name, instance;
    int num_inits = 0;

    bool has_option(const char *option) const { return instance.find(option) != std::string::npos; }
};
std::mutex mutex;
std::vector<std::unique_ptr<stub_provider>> providers;

stub_provider *find_provider(const std::string &name) {
    const std::lock_guard<std::mutex> guard(mutex);
    for (const auto &provider : providers) {
        if (provider->name == name)
            return provider.get();
    }
    return nullptr;
}

const stub_provider *get_provider(DAT_HANDLE handle) {
    return reinterpret_cast<const stub_provider *>(*static_cast<DAT_PROVIDER **>(handle));
}

template <typename Argument>
void record_argument(const Argument &argument) {
    std::memcpy(stub_state.bytes + stub_state.size, &argument, sizeof argument);
    stub_state.size += sizeof argument;
}

/// A function with the signature of a table member.
template <auto Member, typename Type>
struct recorder;
template <auto Member, typename... Arguments>
struct recorder<Member, DAT_RETURN (*DAT_PROVIDER::*)(Arguments...)> {
    static DAT_RETURN call(Arguments... arguments) {
        if (stub_state.recording) {
            const DAT_PROVIDER table = {};
            stub_state.member =
                static_cast<std::size_t>(reinterpret_cast<const char *>(&(table.*Member)) -
                                         reinterpret_cast<const char *>(&table));
            stub_state.size = 0;
            (record_argument(arguments), ...);
        }
        return stub_state.status;
    }
};

template <typename Call>
void set_recorder(DAT_PROVIDER &table, Call) {
    table.*Call::member = recorder<Call::member, std::remove_const_t<decltype(Call::member)>>::call;
}

/// Options: "refuses" fails, "null" and "odd" return invalid handles, "again" reuses one object.
DAT_RETURN ia_open(const DAT_NAME_PTR name, DAT_COUNT, DAT_EVD_HANDLE *, DAT_IA_HANDLE *ia) {
    {
        const std::lock_guard<std::mutex> guard(mutex);
        std::snprintf(stub_state.opened_name, sizeof stub_state.opened_name, "%s", name);
    }
    const stub_provider *provider = find_provider(name);
    if (!provider || provider->has_option("refuses"))
        return DAT_MAKE_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE);
    ++stub_state.opens;
    if (provider->has_option("null") || provider->has_option("odd")) {
        *ia = provider->has_option("odd") ? reinterpret_cast<DAT_IA_HANDLE>(0x1234567) : nullptr;
        return DAT_SUCCESS;
    }
    static stub::object reused_object;
    auto *object = provider->has_option("again") ? &reused_object : new stub::object;
    object->provider = &provider->table;
    *ia = object;
    return DAT_SUCCESS;
}

#ifdef COHERDMA_DAT1
DAT_RETURN ia_open_1_2(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *evd,
                       DAT_IA_HANDLE *ia, DAT_BOOLEAN ro_aware) {
    stub_state.ro_aware = ro_aware;
    return ia_open(name, qlen, evd, ia);
}
#endif

DAT_RETURN open_by_name(std::string name, DAT_IA_HANDLE &ia) {
    DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
    return dat_ia_openv(name.data(), 1, &evd, &ia, registry_test::MAJOR, registry_test::MINOR,
                        DAT_FALSE);
}

DAT_RETURN ia_query(DAT_IA_HANDLE ia, DAT_EVD_HANDLE *evd, DAT_IA_ATTR_MASK mask,
                    DAT_IA_ATTR *ia_attr, DAT_PROVIDER_ATTR_MASK provider_mask,
                    DAT_PROVIDER_ATTR *provider_attr) {
    ++stub_state.queries;
    if (stub_state.recording)
        return recorder<&DAT_PROVIDER::ia_query_func, decltype(&DAT_PROVIDER::ia_query_func)>::call(
            ia, evd, mask, ia_attr, provider_mask, provider_attr);
#ifndef COHERDMA_DAT1
    if (ia_attr && get_provider(ia)->has_option("extensions"))
        ia_attr->extension_supported = DAT_EXTENSION_IB;
#endif
    if (provider_attr)
        provider_attr->is_thread_safe = get_provider(ia)->has_option("safe") ? DAT_TRUE : DAT_FALSE;
    return DAT_SUCCESS;
}

/// Option "again": opens the IA again, at the same address, before it returns.
DAT_RETURN ia_close(DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS) {
    if (const DAT_RETURN status = stub_state.close_status)
        return status;
    ++stub_state.closes;
    if (!get_provider(ia)->has_option("again"))
        delete static_cast<stub::object *>(ia);
    else if (!stub_state.reopened_ia)
        return open_by_name(get_provider(ia)->name, stub_state.reopened_ia);
    return DAT_SUCCESS;
}

#ifndef COHERDMA_DAT1
DAT_RETURN ha_related(DAT_IA_HANDLE ia, const DAT_NAME_PTR, DAT_BOOLEAN *related) {
    if (!get_provider(ia)->has_option("alike") && !get_provider(ia)->has_option("other"))
        return DAT_MAKE_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
    *related = get_provider(ia)->has_option("alike") ? DAT_TRUE : DAT_FALSE;
    return DAT_SUCCESS;
}

/// Opens or closes a query; any other operation adds its second argument to the int of the first.
DAT_RETURN extension_op(DAT_HANDLE handle, DAT_EXTENDED_OP operation, va_list args) {
    ++stub_state.extensions;
    if (const DAT_RETURN status = stub_state.extension_status)
        return status;
    if (operation & DAT_OPEN_EXTENSION_BASE) {
        auto *object = new stub::object;
        object->provider = &find_provider(static_cast<char *>(handle))->table;
        *va_arg(args, DAT_IA_HANDLE *) = object;
    } else if (operation & DAT_CLOSE_EXTENSION_BASE) {
        delete static_cast<stub::object *>(handle);
    } else {
        int *sum = va_arg(args, int *);
        *sum += va_arg(args, int);
    }
    return DAT_SUCCESS;
}
#endif

/// All functions of the table record their arguments, except those of this file. Option "gaps":
/// only ia_open and ia_close; "noext": no extension_op.
void fill_table(stub_provider &provider) {
    provider.table.device_name = provider.name.c_str();
#ifdef COHERDMA_DAT1
    provider.table.ia_open_func = ia_open_1_2;
#else
    provider.table.ia_open_func = ia_open;
#endif
    provider.table.ia_close_func = ia_close;
    if (provider.has_option("gaps"))
        return;
    std::apply([&provider](auto... calls) { (set_recorder(provider.table, calls), ...); },
               registry_calls::all_calls());
    provider.table.ia_query_func = ia_query;
#ifndef COHERDMA_DAT1
    provider.table.ia_ha_related_func = ha_related;
    if (!provider.has_option("noext"))
        provider.table.handle_extendedop_func = extension_op;
#endif
}

/// Option "nested=NAME": dat_provider_init opens an IA, as a provider with a provider below it.
void open_nested(const std::string &instance) {
    const std::size_t pos = instance.find("nested=");
    if (pos == std::string::npos)
        return;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    stub_state.nested_status = open_by_name(instance.substr(pos + std::strlen("nested=")), ia);
    if (stub_state.nested_status == DAT_SUCCESS)
        dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG);
}

} // namespace

STUB_EXPORT stub::state *get_stub_state();
stub::state *get_stub_state() {
    return &stub_state;
}

/// Called by the registry when it has loaded this library. An IA name keeps its table until the
/// last dat_provider_fini for it.
STUB_EXPORT void dat_provider_init(const DAT_PROVIDER_INFO *info, const char *instance) {
    stub_state.find_table = [](const char *name) -> const DAT_PROVIDER * {
        const stub_provider *provider = find_provider(name);
        return provider ? &provider->table : nullptr;
    };
    ++stub_state.inits;
    std::snprintf(stub_state.instance, sizeof stub_state.instance, "%s", instance);
    stub_state.instance_pointer = instance;
    if (std::strstr(instance, "slow"))
        usleep(250000);
    open_nested(instance);
    if (std::strstr(instance, "silent"))
        return;
    stub_provider *provider = find_provider(info->ia_name);
    if (!provider) {
        auto new_provider = std::make_unique<stub_provider>();
        provider = new_provider.get();
        provider->name = info->ia_name;
        provider->instance = instance;
        fill_table(*provider);
        const std::lock_guard<std::mutex> guard(mutex);
        providers.push_back(std::move(new_provider));
    }
    ++provider->num_inits;
    dat_registry_add_provider(&provider->table, info);
}

STUB_EXPORT void dat_provider_fini(const DAT_PROVIDER_INFO *info) {
    ++stub_state.finis;
    stub_provider *provider = find_provider(info->ia_name);
    if (!provider || provider->has_option("keeps"))
        return;
    dat_registry_remove_provider(&provider->table, info);
    const std::lock_guard<std::mutex> guard(mutex);
    if (--provider->num_inits == 0)
        std::erase_if(providers, [provider](const auto &entry) { return entry.get() == provider; });
}

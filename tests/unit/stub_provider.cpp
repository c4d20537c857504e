// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "stub_provider.hpp"
#include "registry_calls.hpp"

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

/// One for each name, with one table, however often it is registered.
struct registered {
    DAT_PROVIDER table = {};
    std::string name, instance;
    int uses = 0;

    bool is(const char *word) const { return instance.find(word) != std::string::npos; }
};
std::mutex lock;
std::vector<std::unique_ptr<registered>> all;

registered *named(const std::string &name) {
    const std::lock_guard<std::mutex> held(lock);
    for (const auto &each : all) {
        if (each->name == name)
            return each.get();
    }
    return nullptr;
}

const registered *of(DAT_HANDLE handle) {
    return reinterpret_cast<const registered *>(*static_cast<DAT_PROVIDER **>(handle));
}

template <typename Argument>
void add(const Argument &argument) {
    std::memcpy(stub_state.bytes + stub_state.size, &argument, sizeof argument);
    stub_state.size += sizeof argument;
}

/// A function of the signature that a member has.
template <auto Member, typename Type>
struct recorder;
template <auto Member, typename... Arguments>
struct recorder<Member, DAT_RETURN (*DAT_PROVIDER::*)(Arguments...)> {
    static DAT_RETURN call(Arguments... arguments) {
        if (stub_state.recording) {
            const DAT_PROVIDER none = {};
            stub_state.member =
                static_cast<std::size_t>(reinterpret_cast<const char *>(&(none.*Member)) -
                                         reinterpret_cast<const char *>(&none));
            stub_state.size = 0;
            (add(arguments), ...);
        }
        return stub_state.status;
    }
};

template <typename Call>
void fill(DAT_PROVIDER &table, Call) {
    table.*Call::member = recorder<Call::member, std::remove_const_t<decltype(Call::member)>>::call;
}

DAT_RETURN ia_open(const DAT_NAME_PTR name, DAT_COUNT, DAT_EVD_HANDLE *, DAT_IA_HANDLE *ia) {
    {
        const std::lock_guard<std::mutex> held(lock);
        std::snprintf(stub_state.opened, sizeof stub_state.opened, "%s", name);
    }
    const registered *which = named(name);
    if (!which || which->is("refuses"))
        return DAT_MAKE_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE);
    ++stub_state.opens;
    if (which->is("null") || which->is("odd")) {
        *ia = which->is("odd") ? reinterpret_cast<DAT_IA_HANDLE>(0x1234567) : nullptr;
        return DAT_SUCCESS;
    }
    static stub::object only;
    auto *made = which->is("again") ? &only : new stub::object;
    made->provider = &which->table;
    *ia = made;
    return DAT_SUCCESS;
}

#ifdef COHERDMA_DAT1
DAT_RETURN ia_open_in_1_2(const DAT_NAME_PTR name, DAT_COUNT qlen, DAT_EVD_HANDLE *evd,
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
                    DAT_IA_ATTR *about, DAT_PROVIDER_ATTR_MASK provider_mask,
                    DAT_PROVIDER_ATTR *about_provider) {
    ++stub_state.queries;
    if (stub_state.recording)
        return recorder<&DAT_PROVIDER::ia_query_func, decltype(&DAT_PROVIDER::ia_query_func)>::call(
            ia, evd, mask, about, provider_mask, about_provider);
#ifndef COHERDMA_DAT1
    if (about && of(ia)->is("extensions"))
        about->extension_supported = DAT_EXTENSION_IB;
#endif
    if (about_provider)
        about_provider->is_thread_safe = of(ia)->is("safe") ? DAT_TRUE : DAT_FALSE;
    return DAT_SUCCESS;
}

DAT_RETURN ia_close(DAT_IA_HANDLE ia, DAT_CLOSE_FLAGS) {
    if (const DAT_RETURN status = stub_state.close_status)
        return status;
    ++stub_state.closes;
    if (!of(ia)->is("again"))
        delete static_cast<stub::object *>(ia);
    else if (!stub_state.opened_again)
        return open_by_name(of(ia)->name, stub_state.opened_again);
    return DAT_SUCCESS;
}

#ifndef COHERDMA_DAT1
DAT_RETURN ha_related(DAT_IA_HANDLE ia, const DAT_NAME_PTR, DAT_BOOLEAN *answer) {
    if (!of(ia)->is("alike") && !of(ia)->is("other"))
        return DAT_MAKE_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
    *answer = of(ia)->is("alike") ? DAT_TRUE : DAT_FALSE;
    return DAT_SUCCESS;
}

DAT_RETURN extended(DAT_HANDLE handle, DAT_EXTENDED_OP operation, va_list rest) {
    ++stub_state.extensions;
    if (const DAT_RETURN status = stub_state.extension_status)
        return status;
    if (operation & DAT_OPEN_EXTENSION_BASE) {
        auto *made = new stub::object;
        made->provider = &named(static_cast<char *>(handle))->table;
        *va_arg(rest, DAT_IA_HANDLE *) = made;
    } else if (operation & DAT_CLOSE_EXTENSION_BASE) {
        delete static_cast<stub::object *>(handle);
    } else {
        int *sum = va_arg(rest, int *);
        *sum += va_arg(rest, int);
    }
    return DAT_SUCCESS;
}
#endif

void fill_all(registered &one) {
    one.table.device_name = one.name.c_str();
#ifdef COHERDMA_DAT1
    one.table.ia_open_func = ia_open_in_1_2;
#else
    one.table.ia_open_func = ia_open;
#endif
    one.table.ia_close_func = ia_close;
    if (one.is("gaps"))
        return;
    std::apply([&one](auto... calls) { (fill(one.table, calls), ...); }, registry_calls::all());
    one.table.ia_query_func = ia_query;
#ifndef COHERDMA_DAT1
    one.table.ia_ha_related_func = ha_related;
    if (!one.is("noext"))
        one.table.handle_extendedop_func = extended;
#endif
}

void open_nested(const std::string &instance) {
    const std::size_t place = instance.find("nested=");
    if (place == std::string::npos)
        return;
    DAT_IA_HANDLE ia = DAT_HANDLE_NULL;
    stub_state.nested_status = open_by_name(instance.substr(place + std::strlen("nested=")), ia);
    if (stub_state.nested_status == DAT_SUCCESS)
        dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG);
}

} // namespace

STUB_EXPORT stub::state *stub_state_of_library();
stub::state *stub_state_of_library() {
    return &stub_state;
}

STUB_EXPORT void dat_provider_init(const DAT_PROVIDER_INFO *info, const char *instance) {
    stub_state.provider = [](const char *name) -> const DAT_PROVIDER * {
        const registered *found = named(name);
        return found ? &found->table : nullptr;
    };
    ++stub_state.inits;
    std::snprintf(stub_state.instance, sizeof stub_state.instance, "%s", instance);
    stub_state.instance_kept = instance;
    if (std::strstr(instance, "slow"))
        usleep(250000);
    open_nested(instance);
    if (std::strstr(instance, "silent"))
        return;
    registered *one = named(info->ia_name);
    if (!one) {
        auto made = std::make_unique<registered>();
        one = made.get();
        one->name = info->ia_name;
        one->instance = instance;
        fill_all(*one);
        const std::lock_guard<std::mutex> held(lock);
        all.push_back(std::move(made));
    }
    ++one->uses;
    dat_registry_add_provider(&one->table, info);
}

STUB_EXPORT void dat_provider_fini(const DAT_PROVIDER_INFO *info) {
    ++stub_state.finis;
    registered *one = named(info->ia_name);
    if (!one || one->is("keeps"))
        return;
    dat_registry_remove_provider(&one->table, info);
    const std::lock_guard<std::mutex> held(lock);
    if (--one->uses == 0)
        std::erase_if(all, [one](const auto &each) { return each.get() == one; });
}

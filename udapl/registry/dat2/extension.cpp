// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dat_extension_op. Two kinds of operation concern the registry itself: one that opens a provider
// by its name, to ask it something without dat_ia_openv, and one that closes what the former
// opened. The IA that a provider hands out there has no integer; programs have its address.

#include "extension.hpp"
#include "../ias.hpp"
#include "../lock.hpp"
#include "../registrations.hpp"

#include <atomic>
#include <cstdarg>

namespace coherdma::registry {
namespace {

std::atomic<bool> allowed = false;

DAT_RETURN call(const DAT_PROVIDER *provider, DAT_HANDLE handle, DAT_EXTENDED_OP operation,
                va_list rest) noexcept {
    if (!provider->handle_extendedop_func)
        return error(DAT_MODEL_NOT_SUPPORTED);
    return provider->handle_extendedop_func(handle, operation, rest);
}

/// The provider has the name where a handle would be, and what follows the name.
DAT_RETURN open_query(char *name, DAT_EXTENDED_OP operation, va_list rest) noexcept {
    DAT_PROVIDER_INFO wanted = {};
    if (!make_info(name, DAT_VERSION_MAJOR, DAT_VERSION_MINOR, DAT_FALSE, wanted))
        return error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG3);
    DAT_RETURN status = DAT_SUCCESS;
    registration *through = nullptr;
    {
        const locked lock;
        through = open_provider(wanted, status);
        if (!through)
            return status;
        allow_extensions();
    }
    status = call(through->provider, name, operation, rest);
    const locked lock;
    if (status == DAT_SUCCESS)
        ++through->queries;
    else
        close_provider(through);
    return status;
}

registration *claim_query(const DAT_PROVIDER *provider) noexcept {
    const locked lock;
    registration *found = queried(provider);
    if (found)
        --found->queries;
    return found;
}

DAT_RETURN close_query(DAT_HANDLE handle, DAT_EXTENDED_OP operation, va_list rest) noexcept {
    const DAT_PROVIDER *provider = provider_of(handle);
    registration *through = provider ? claim_query(provider) : nullptr;
    if (!through)
        return error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);
    const DAT_RETURN status = call(provider, handle, operation, rest);
    const locked lock;
    if (status != DAT_SUCCESS) {
        ++through->queries;
        return status;
    }
    forget(handle);
    close_provider(through);
    return status;
}

DAT_RETURN on_object(DAT_HANDLE given, DAT_EXTENDED_OP operation, va_list rest) noexcept {
    const DAT_HANDLE handle = inside(given);
    const DAT_PROVIDER *provider = provider_of(handle);
    if (!provider)
        return error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);
    return call(provider, handle, operation, rest);
}

} // namespace

void allow_extensions() noexcept {
    allowed.store(true, std::memory_order_relaxed);
}

} // namespace coherdma::registry

using namespace coherdma::registry;

DAT_RETURN dat_extension_op(DAT_HANDLE handle, DAT_EXTENDED_OP operation, ...) {
    if (handle && !allowed.load(std::memory_order_relaxed))
        return error(DAT_NOT_IMPLEMENTED);
    const auto bits = static_cast<unsigned>(operation);
    std::va_list rest;
    va_start(rest, operation);
    DAT_RETURN status = DAT_SUCCESS;
    if (bits & DAT_OPEN_EXTENSION_BASE) {
        char *name = va_arg(rest, char *);
        status = open_query(name, operation, rest);
    } else if (bits & DAT_CLOSE_EXTENSION_BASE) {
        status = close_query(handle, operation, rest);
    } else {
        status = on_object(handle, operation, rest);
    }
    va_end(rest);
    return status;
}

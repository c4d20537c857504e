// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dat_extension_op. The registry itself handles two kinds of operation: one opens a provider by
// name to query it without dat_ia_openv, the other closes it. The IA of such a query has no index
// in the IA table; its handle is the provider's.

#include "extension.hpp"
#include "../lock.hpp"
#include "handles/ia_table.hpp"
#include "providers/provider_table.hpp"

#include <atomic>
#include <cstdarg>

namespace coherdma::registry {
namespace {

std::atomic<bool> extensions_enabled = false;

DAT_RETURN call_extension(const DAT_PROVIDER *provider, DAT_HANDLE handle,
                          DAT_EXTENDED_OP operation, va_list args) noexcept {
    if (!provider->handle_extendedop_func)
        return make_error(DAT_MODEL_NOT_SUPPORTED);
    return provider->handle_extendedop_func(handle, operation, args);
}

/// Opens the provider of an IA name to query it, without an IA. The provider gets the name in place
/// of a handle, and the arguments after the name.
DAT_RETURN open_query(char *name, DAT_EXTENDED_OP operation, va_list args) noexcept {
    DAT_PROVIDER_INFO info = {};
    if (!make_provider_info(name, DAT_VERSION_MAJOR, DAT_VERSION_MINOR, DAT_FALSE, info))
        return make_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1);
    DAT_RETURN status = DAT_SUCCESS;
    provider_entry *entry = nullptr;
    {
        const std::lock_guard guard(registry_lock);
        entry = open_provider(info, status);
        if (!entry)
            return status;
        enable_extensions();
    }
    status = call_extension(entry->provider, name, operation, args);
    const std::lock_guard guard(registry_lock);
    if (status == DAT_SUCCESS)
        ++entry->num_queries;
    else
        close_provider(entry);
    return status;
}

/// The entry whose query is to be closed; NULL if the provider has none open. Decrements
/// num_queries, so that at most as many closes run concurrently as queries are open.
provider_entry *claim_query(const DAT_PROVIDER *provider) noexcept {
    const std::lock_guard guard(registry_lock);
    provider_entry *entry = find_open_query(provider);
    if (entry)
        --entry->num_queries;
    return entry;
}

/// handle: that of the provider, which open_query() returned to the program.
DAT_RETURN close_query(DAT_HANDLE handle, DAT_EXTENDED_OP operation, va_list args) noexcept {
    const DAT_PROVIDER *provider = find_provider(handle);
    provider_entry *entry = provider ? claim_query(provider) : nullptr;
    if (!entry)
        return make_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);
    const DAT_RETURN status = call_extension(provider, handle, operation, args);
    const std::lock_guard guard(registry_lock);
    if (status != DAT_SUCCESS) {
        ++entry->num_queries;
        return status;
    }
    uncache_page(handle);
    close_provider(entry);
    return status;
}

DAT_RETURN forward_extension(DAT_HANDLE public_handle, DAT_EXTENDED_OP operation,
                             va_list args) noexcept {
    const DAT_HANDLE handle = to_provider_handle(public_handle);
    const DAT_PROVIDER *provider = find_provider(handle);
    if (!provider)
        return make_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1);
    return call_extension(provider, handle, operation, args);
}

} // namespace

void enable_extensions() noexcept {
    extensions_enabled.store(true, std::memory_order_relaxed);
}

} // namespace coherdma::registry

using namespace coherdma::registry;

/// Passes the call to the provider of the handle, or of the IA name if the operation opens a query.
DAT_RETURN dat_extension_op(DAT_HANDLE handle, DAT_EXTENDED_OP operation, ...) {
    // An operation that opens a query has no handle.
    if (handle && !extensions_enabled.load(std::memory_order_relaxed))
        return make_error(DAT_NOT_IMPLEMENTED);
    const auto bits = static_cast<unsigned>(operation);
    std::va_list args;
    va_start(args, operation);
    DAT_RETURN status = DAT_SUCCESS;
    if (bits & DAT_OPEN_EXTENSION_BASE) {
        char *name = va_arg(args, char *);
        status = open_query(name, operation, args);
    } else if (bits & DAT_CLOSE_EXTENSION_BASE) {
        status = close_query(handle, operation, args);
    } else {
        status = forward_extension(handle, operation, args);
    }
    va_end(args);
    return status;
}

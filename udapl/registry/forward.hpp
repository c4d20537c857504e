// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Forwards a DAT call to the provider. Function is the member of DAT_PROVIDER, Subtype the error
// for an invalid handle. If the page of the handle is cached this is a dozen instructions and a
// jump; other handles are checked in forward_slow(), out of line.
#pragma once

#include "handles/ia_table.hpp"

namespace coherdma::registry {

template <auto Function, DAT_RETURN_SUBTYPE Subtype, typename... Arguments>
[[gnu::cold, gnu::noinline]] DAT_RETURN forward_slow(DAT_HANDLE handle, Arguments... arguments) {
    const DAT_PROVIDER *provider = find_provider(handle);
    if (!provider)
        return make_error(DAT_INVALID_HANDLE, Subtype);
    if (!(provider->*Function))
        return make_error(DAT_MODEL_NOT_SUPPORTED);
    return (provider->*Function)(handle, arguments...);
}

/// Calls the member Function of the handle's provider; Subtype: the error for an invalid handle.
template <auto Function, DAT_RETURN_SUBTYPE Subtype, typename... Arguments>
inline DAT_RETURN forward(DAT_HANDLE handle, Arguments... arguments) {
    if (const DAT_PROVIDER * provider; find_cached_provider(handle, provider)) [[likely]]
        return (provider->*Function)(handle, arguments...);
    return forward_slow<Function, Subtype>(handle, arguments...);
}

/// For calls that destroy the object if they succeed.
template <auto Function, DAT_RETURN_SUBTYPE Subtype, typename... Arguments>
inline DAT_RETURN forward_destroy(DAT_HANDLE handle, Arguments... arguments) {
    const DAT_RETURN status = forward<Function, Subtype>(handle, arguments...);
    if (status == DAT_SUCCESS)
        uncache_page(handle);
    return status;
}

template <auto Function, typename... Arguments>
[[gnu::cold, gnu::noinline]] DAT_RETURN forward_ia_address(DAT_IA_HANDLE handle,
                                                           Arguments... arguments) {
    if (!to_public_handle(handle))
        return make_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);
    return forward<Function, DAT_INVALID_HANDLE_IA>(handle, arguments...);
}

/// For calls on an IA: programs pass its index, only providers its address.
template <auto Function, typename... Arguments>
inline DAT_RETURN forward_ia(DAT_IA_HANDLE handle, Arguments... arguments) {
    if (is_ia_index(handle)) [[likely]]
        return forward<Function, DAT_INVALID_HANDLE_IA>(find_ia(handle), arguments...);
    return forward_ia_address<Function>(handle, arguments...);
}

} // namespace coherdma::registry

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// A call of a program becomes one of the provider: Function is the member of its table, Subtype
// what is said of a bad handle. With a good handle this is a dozen instructions and a jump; what is
// not known to be good is looked at in forward_slowly, where the arguments still are as they came.
#pragma once

#include "ias.hpp"

namespace coherdma::registry {

template <auto Function, DAT_RETURN_SUBTYPE Subtype, typename... Arguments>
[[gnu::cold, gnu::noinline]] DAT_RETURN forward_slowly(DAT_HANDLE handle, Arguments... arguments) {
    const DAT_PROVIDER *provider = provider_of(handle);
    if (!provider)
        return error(DAT_INVALID_HANDLE, Subtype);
    if (!(provider->*Function))
        return error(DAT_MODEL_NOT_SUPPORTED);
    return (provider->*Function)(handle, arguments...);
}

template <auto Function, DAT_RETURN_SUBTYPE Subtype, typename... Arguments>
inline DAT_RETURN forward(DAT_HANDLE handle, Arguments... arguments) {
    if (const DAT_PROVIDER * provider; is_kept(handle, provider)) [[likely]]
        return (provider->*Function)(handle, arguments...);
    return forward_slowly<Function, Subtype>(handle, arguments...);
}

/// The object is gone after success.
template <auto Function, DAT_RETURN_SUBTYPE Subtype, typename... Arguments>
inline DAT_RETURN forward_last(DAT_HANDLE handle, Arguments... arguments) {
    const DAT_RETURN status = forward<Function, Subtype>(handle, arguments...);
    if (status == DAT_SUCCESS)
        forget(handle);
    return status;
}

template <auto Function, typename... Arguments>
[[gnu::cold, gnu::noinline]] DAT_RETURN forward_address(DAT_IA_HANDLE handle,
                                                        Arguments... arguments) {
    if (!outside(handle))
        return error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);
    return forward<Function, DAT_INVALID_HANDLE_IA>(handle, arguments...);
}

/// Of an IA: programs have an integer, and only providers its address.
template <auto Function, typename... Arguments>
inline DAT_RETURN forward_ia(DAT_IA_HANDLE handle, Arguments... arguments) {
    if (is_number(handle)) [[likely]]
        return forward<Function, DAT_INVALID_HANDLE_IA>(ia_numbered(handle), arguments...);
    return forward_address<Function>(handle, arguments...);
}

} // namespace coherdma::registry

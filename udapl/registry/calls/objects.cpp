// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Calls on an IA, and calls on an object of any type.

#include "../forward.hpp"

using namespace coherdma::registry;

DAT_RETURN dat_ia_query(DAT_IA_HANDLE ia_handle, DAT_EVD_HANDLE *async_evd_handle,
                        DAT_IA_ATTR_MASK ia_attr_mask, DAT_IA_ATTR *ia_attr,
                        DAT_PROVIDER_ATTR_MASK provider_attr_mask,
                        DAT_PROVIDER_ATTR *provider_attr) {
    return forward_ia<&DAT_PROVIDER::ia_query_func>(ia_handle, async_evd_handle, ia_attr_mask,
                                                    ia_attr, provider_attr_mask, provider_attr);
}

DAT_RETURN dat_set_consumer_context(DAT_HANDLE dat_handle, DAT_CONTEXT context) {
    return forward<&DAT_PROVIDER::set_consumer_context_func, DAT_INVALID_HANDLE1>(
        to_provider_handle(dat_handle), context);
}

DAT_RETURN dat_get_consumer_context(DAT_HANDLE dat_handle, DAT_CONTEXT *context) {
    return forward<&DAT_PROVIDER::get_consumer_context_func, DAT_INVALID_HANDLE1>(
        to_provider_handle(dat_handle), context);
}

DAT_RETURN dat_get_handle_type(DAT_HANDLE dat_handle, DAT_HANDLE_TYPE *handle_type) {
    return forward<&DAT_PROVIDER::get_handle_type_func, DAT_INVALID_HANDLE1>(
        to_provider_handle(dat_handle), handle_type);
}

/// handle: an IA's index, as programs have it, or its address, as providers have it. ia_handle is
/// the other.
DAT_RETURN dats_get_ia_handle(DAT_IA_HANDLE handle, DAT_IA_HANDLE *ia_handle) {
    if (!ia_handle)
        return make_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG2);
    const DAT_IA_HANDLE ia = is_ia_index(handle) ? find_ia(handle) : to_public_handle(handle);
    if (!ia)
        return make_error(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE_IA);
    *ia_handle = ia;
    return DAT_SUCCESS;
}

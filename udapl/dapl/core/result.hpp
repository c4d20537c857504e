// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// DAT_RETURN values: errors have the class bit and a subtype.
#pragma once

#include <dat2/udat.h>

namespace coherdma::dapl {

constexpr DAT_RETURN dat_error(DAT_UINT32 type, DAT_UINT32 subtype = DAT_NO_SUBTYPE) {
    return DAT_CLASS_ERROR | type | subtype;
}

/// The n-th argument of the call, counted from 1.
constexpr DAT_RETURN invalid_parameter(unsigned n) {
    return dat_error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1 + n - 1);
}

/// subtype: DAT_INVALID_HANDLE_...
constexpr DAT_RETURN invalid_handle(DAT_UINT32 subtype) {
    return dat_error(DAT_INVALID_HANDLE, subtype);
}

/// subtype: DAT_INVALID_STATE_...
constexpr DAT_RETURN invalid_state(DAT_UINT32 subtype) {
    return dat_error(DAT_INVALID_STATE, subtype);
}

/// resource: DAT_RESOURCE_...
constexpr DAT_RETURN no_resources(DAT_UINT32 resource) {
    return dat_error(DAT_INSUFFICIENT_RESOURCES, resource);
}

/// The errno of a verbs or rdma_cm call. resource: the subtype of DAT_INSUFFICIENT_RESOURCES.
/// One that no DAT error tells is logged.
// caller: not std::source_location, which clang 14 lacks.
[[gnu::cold]] DAT_RETURN from_errno(int error, DAT_UINT32 resource,
                                    const char *caller = __builtin_FUNCTION()) noexcept;

} // namespace coherdma::dapl

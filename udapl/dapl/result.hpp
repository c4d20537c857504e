// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// What functions return: always with the class bit, and with the subtype that says what was wrong.
#pragma once

#include <dat2/udat.h>

namespace coherdma::dapl {

constexpr DAT_RETURN failed(DAT_UINT32 type, DAT_UINT32 subtype = DAT_NO_SUBTYPE) {
    return DAT_CLASS_ERROR | type | subtype;
}

/// The n-th argument of the call, counted from 1.
constexpr DAT_RETURN wrong_argument(unsigned n) {
    return failed(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1 + n - 1);
}

/// One of DAT_INVALID_HANDLE_...
constexpr DAT_RETURN wrong_handle(DAT_UINT32 which) {
    return failed(DAT_INVALID_HANDLE, which);
}

/// One of DAT_INVALID_STATE_...
constexpr DAT_RETURN wrong_state(DAT_UINT32 which) {
    return failed(DAT_INVALID_STATE, which);
}

constexpr DAT_RETURN exhausted(DAT_UINT32 which) {
    return failed(DAT_INSUFFICIENT_RESOURCES, which);
}

/// What a call of verbs or of the connection manager said; resource: what it was about.
[[gnu::cold]] DAT_RETURN failed_with(int error, DAT_UINT32 resource) noexcept;

} // namespace coherdma::dapl

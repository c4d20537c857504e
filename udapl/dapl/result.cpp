// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "result.hpp"

#include <cerrno>

DAT_RETURN coherdma::dapl::failed_with(int error, DAT_UINT32 resource) noexcept {
    switch (error) {
    case ENOMEM:
    case ENOSPC:
    case EMFILE:
    case ENFILE:
    case EAGAIN:
        return exhausted(resource);
    case EACCES:
        return failed(DAT_PRIVILEGES_VIOLATION);
    case EPERM:
        return failed(DAT_PROTECTION_VIOLATION);
    case EINVAL:
        return failed(DAT_INVALID_PARAMETER);
    case EOPNOTSUPP:
    case ENOSYS:
        return failed(DAT_MODEL_NOT_SUPPORTED);
    case EADDRINUSE:
        return failed(DAT_CONN_QUAL_IN_USE);
    case EADDRNOTAVAIL:
        return failed(DAT_CONN_QUAL_UNAVAILABLE);
    case EAFNOSUPPORT:
        return failed(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED);
    case ENETUNREACH:
    case EHOSTUNREACH:
        return failed(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNREACHABLE);
    case ETIMEDOUT:
        return failed(DAT_TIMEOUT_EXPIRED);
    case EINTR:
        return failed(DAT_INTERRUPTED_CALL);
    default:
        return failed(DAT_INTERNAL_ERROR);
    }
}

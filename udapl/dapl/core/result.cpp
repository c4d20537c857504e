// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "result.hpp"

#include "log.hpp"

#include <cerrno>
#include <cstring>

/// The DAT error of a verbs or rdma_cm call. resource: the subtype if resources are lacking.
DAT_RETURN coherdma::dapl::from_errno(int error, DAT_UINT32 resource, const char *caller) noexcept {
    switch (error) {
    case ENOMEM:
    case ENOSPC:
    case EMFILE:
    case ENFILE:
    case EAGAIN:
        return no_resources(resource);
    case EACCES:
        return dat_error(DAT_PRIVILEGES_VIOLATION);
    case EPERM:
        return dat_error(DAT_PROTECTION_VIOLATION);
    case EINVAL:
        return dat_error(DAT_INVALID_PARAMETER);
    case EOPNOTSUPP:
    case ENOSYS:
        return dat_error(DAT_MODEL_NOT_SUPPORTED);
    case EADDRINUSE:
        return dat_error(DAT_CONN_QUAL_IN_USE);
    case EADDRNOTAVAIL:
        return dat_error(DAT_CONN_QUAL_UNAVAILABLE);
    case EAFNOSUPPORT:
        return dat_error(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNSUPPORTED);
    case ENETUNREACH:
    case EHOSTUNREACH:
        return dat_error(DAT_INVALID_ADDRESS, DAT_INVALID_ADDRESS_UNREACHABLE);
    case ETIMEDOUT:
        return dat_error(DAT_TIMEOUT_EXPIRED);
    case EINTR:
        return dat_error(DAT_INTERRUPTED_CALL);
    default:
        const char *const text = strerrordesc_np(error);
        log(log_type::errors, "unexpected errno %d (%s) in %s", error,
            text != nullptr ? text : "unknown", caller);
        return dat_error(DAT_INTERNAL_ERROR);
    }
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// dat_strerror: what a DAT_RETURN says, in the words of dat_error.h. Both texts are always set, for
// programs copy them without a look at what is returned: that is an error if the type or the
// subtype is not known, or has no place to be put.

#include "dat.hpp"

#include <array>

namespace {

/// By the type's number, which is in the upper bits.
constexpr std::array TYPES = {"DAT_SUCCESS",
                              "DAT_ABORT",
                              "DAT_CONN_QUAL_IN_USE",
                              "DAT_INSUFFICIENT_RESOURCES",
                              "DAT_INTERNAL_ERROR",
                              "DAT_INVALID_HANDLE",
                              "DAT_INVALID_PARAMETER",
                              "DAT_INVALID_STATE",
                              "DAT_LENGTH_ERROR",
                              "DAT_MODEL_NOT_SUPPORTED",
                              "DAT_PROVIDER_NOT_FOUND",
                              "DAT_PRIVILEGES_VIOLATION",
                              "DAT_PROTECTION_VIOLATION",
                              "DAT_QUEUE_EMPTY",
                              "DAT_QUEUE_FULL",
                              "DAT_TIMEOUT_EXPIRED",
                              "DAT_PROVIDER_ALREADY_REGISTERED",
                              "DAT_PROVIDER_IN_USE",
                              "DAT_INVALID_ADDRESS",
                              "DAT_INTERRUPTED_CALL",
                              "DAT_CONN_QUAL_UNAVAILABLE",
                              "DAT_RESERVED_LMR",
                              "DAT_PORT_IN_USE",
                              "DAT_COMM_NOT_SUPPORTED"};

/// By the subtype.
constexpr std::array SUBTYPES = {"",
                                 "DAT_SUB_INTERRUPTED",
                                 "DAT_RESOURCE_MEMORY",
                                 "DAT_RESOURCE_DEVICE",
                                 "DAT_RESOURCE_TEP",
                                 "DAT_RESOURCE_TEVD",
                                 "DAT_RESOURCE_PROTECTION_DOMAIN",
                                 "DAT_RESOURCE_MEMORY_REGION",
                                 "DAT_RESOURCE_ERROR_HANDLER",
                                 "DAT_RESOURCE_CREDITS",
                                 "DAT_RESOURCE_SRQ",
                                 "DAT_INVALID_HANDLE_IA",
                                 "DAT_INVALID_HANDLE_EP",
                                 "DAT_INVALID_HANDLE_LMR",
                                 "DAT_INVALID_HANDLE_RMR",
                                 "DAT_INVALID_HANDLE_PZ",
                                 "DAT_INVALID_HANDLE_PSP",
                                 "DAT_INVALID_HANDLE_RSP",
                                 "DAT_INVALID_HANDLE_CR",
                                 "DAT_INVALID_HANDLE_CNO",
                                 "DAT_INVALID_HANDLE_EVD_CR",
                                 "DAT_INVALID_HANDLE_EVD_REQUEST",
                                 "DAT_INVALID_HANDLE_EVD_RECV",
                                 "DAT_INVALID_HANDLE_EVD_CONN",
                                 "DAT_INVALID_HANDLE_EVD_ASYNC",
                                 "DAT_INVALID_HANDLE_SRQ",
                                 "DAT_INVALID_HANDLE_CSP",
                                 "DAT_INVALID_HANDLE1",
                                 "DAT_INVALID_HANDLE2",
                                 "DAT_INVALID_HANDLE3",
                                 "DAT_INVALID_HANDLE4",
                                 "DAT_INVALID_HANDLE5",
                                 "DAT_INVALID_HANDLE6",
                                 "DAT_INVALID_HANDLE7",
                                 "DAT_INVALID_HANDLE8",
                                 "DAT_INVALID_HANDLE9",
                                 "DAT_INVALID_HANDLE10",
                                 "DAT_INVALID_ARG1",
                                 "DAT_INVALID_ARG2",
                                 "DAT_INVALID_ARG3",
                                 "DAT_INVALID_ARG4",
                                 "DAT_INVALID_ARG5",
                                 "DAT_INVALID_ARG6",
                                 "DAT_INVALID_ARG7",
                                 "DAT_INVALID_ARG8",
                                 "DAT_INVALID_ARG9",
                                 "DAT_INVALID_ARG10",
                                 "DAT_INVALID_STATE_EP_UNCONNECTED",
                                 "DAT_INVALID_STATE_EP_ACTCONNPENDING",
                                 "DAT_INVALID_STATE_EP_PASSCONNPENDING",
                                 "DAT_INVALID_STATE_EP_TENTCONNPENDING",
                                 "DAT_INVALID_STATE_EP_CONNECTED",
                                 "DAT_INVALID_STATE_EP_DISCONNECTED",
                                 "DAT_INVALID_STATE_EP_RESERVED",
                                 "DAT_INVALID_STATE_EP_COMPLPENDING",
                                 "DAT_INVALID_STATE_EP_DISCPENDING",
                                 "DAT_INVALID_STATE_EP_PROVIDERCONTROL",
                                 "DAT_INVALID_STATE_EP_NOTREADY",
                                 "DAT_INVALID_STATE_EP_RECV_WATERMARK",
                                 "DAT_INVALID_STATE_EP_PZ",
                                 "DAT_INVALID_STATE_EP_EVD_REQUEST",
                                 "DAT_INVALID_STATE_EP_EVD_RECV",
                                 "DAT_INVALID_STATE_EP_EVD_CONNECT",
                                 "DAT_INVALID_STATE_EP_UNCONFIGURED",
                                 "DAT_INVALID_STATE_EP_UNCONFRESERVED",
                                 "DAT_INVALID_STATE_EP_UNCONFPASSIVE",
                                 "DAT_INVALID_STATE_EP_UNCONFTENTATIVE",
                                 "DAT_INVALID_STATE_CNO_IN_USE",
                                 "DAT_INVALID_STATE_CNO_DEAD",
                                 "DAT_INVALID_STATE_EVD_OPEN",
                                 "DAT_INVALID_STATE_EVD_ENABLED",
                                 "DAT_INVALID_STATE_EVD_DISABLED",
                                 "DAT_INVALID_STATE_EVD_WAITABLE",
                                 "DAT_INVALID_STATE_EVD_UNWAITABLE",
                                 "DAT_INVALID_STATE_EVD_IN_USE",
                                 "DAT_INVALID_STATE_EVD_CONFIG_NOTIFY",
                                 "DAT_INVALID_STATE_EVD_CONFIG_SOLICITED",
                                 "DAT_INVALID_STATE_EVD_CONFIG_THRESHOLD",
                                 "DAT_INVALID_STATE_EVD_WAITER",
                                 "DAT_INVALID_STATE_EVD_ASYNC",
                                 "DAT_INVALID_STATE_IA_IN_USE",
                                 "DAT_INVALID_STATE_LMR_IN_USE",
                                 "DAT_INVALID_STATE_LMR_FREE",
                                 "DAT_INVALID_STATE_PZ_IN_USE",
                                 "DAT_INVALID_STATE_PZ_FREE",
                                 "DAT_INVALID_STATE_SRQ_OPERATIONAL",
                                 "DAT_INVALID_STATE_SRQ_ERROR",
                                 "DAT_INVALID_STATE_SRQ_IN_USE",
                                 "DAT_INVALID_STATE_SRQ_SHUTDOWN",
                                 "DAT_PRIVILEGES_READ",
                                 "DAT_PRIVILEGES_WRITE",
                                 "DAT_PRIVILEGES_RDMA_READ",
                                 "DAT_PRIVILEGES_RDMA_WRITE",
                                 "DAT_PROTECTION_READ",
                                 "DAT_PROTECTION_WRITE",
                                 "DAT_PROTECTION_RDMA_READ",
                                 "DAT_PROTECTION_RDMA_WRITE",
                                 "DAT_INVALID_ADDRESS_UNSUPPORTED",
                                 "DAT_INVALID_ADDRESS_UNREACHABLE",
                                 "DAT_INVALID_ADDRESS_MALFORMED",
                                 "DAT_NAME_NOT_REGISTERED",
                                 "DAT_MAJOR_NOT_FOUND",
                                 "DAT_MINOR_NOT_FOUND",
                                 "DAT_THREAD_SAFETY_NOT_FOUND"};

static_assert(TYPES.size() == (DAT_COMM_NOT_SUPPORTED >> 16) + 1);
static_assert(SUBTYPES.size() == DAT_THREAD_SAFETY_NOT_FOUND + 1);

const char *type_name(DAT_RETURN type) noexcept {
    if (type >> 16 < TYPES.size())
        return TYPES[type >> 16];
    if (type == DAT_EXTENSION_BASE)
        return "DAT_EXTENSION_BASE";
    return type == DAT_NOT_IMPLEMENTED ? "DAT_NOT_IMPLEMENTED" : nullptr;
}

const char *subtype_name(DAT_RETURN subtype) noexcept {
    return subtype < SUBTYPES.size() ? SUBTYPES[subtype] : nullptr;
}

} // namespace

DAT_RETURN dat_strerror(DAT_RETURN status, const char **major_message_string,
                        const char **minor_message_string) {
    using coherdma::registry::error;
    const char *type = type_name(DAT_GET_TYPE(status));
    const char *subtype = subtype_name(DAT_GET_SUBTYPE(status));
    if (major_message_string)
        *major_message_string = type ? type : "unknown type of error";
    if (minor_message_string)
        *minor_message_string = subtype ? subtype : "unknown subtype of error";
    if (!type || !subtype)
        return error(DAT_INVALID_PARAMETER, DAT_INVALID_ARG1);
    if (!major_message_string || !minor_message_string)
        return error(DAT_INVALID_PARAMETER,
                     major_message_string ? DAT_INVALID_ARG3 : DAT_INVALID_ARG2);
    return DAT_SUCCESS;
}

// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
//
// Numbers of DAT in words, for reports. dat_strerror is what is tested, so it is not asked.

#include "check.hpp"

#include <array>
#include <cstdio>
#include <span>

namespace conform {

namespace {

constexpr std::array types = {"SUCCESS",
                              "ABORT",
                              "CONN_QUAL_IN_USE",
                              "INSUFFICIENT_RESOURCES",
                              "INTERNAL_ERROR",
                              "INVALID_HANDLE",
                              "INVALID_PARAMETER",
                              "INVALID_STATE",
                              "LENGTH_ERROR",
                              "MODEL_NOT_SUPPORTED",
                              "PROVIDER_NOT_FOUND",
                              "PRIVILEGES_VIOLATION",
                              "PROTECTION_VIOLATION",
                              "QUEUE_EMPTY",
                              "QUEUE_FULL",
                              "TIMEOUT_EXPIRED",
                              "PROVIDER_ALREADY_REGISTERED",
                              "PROVIDER_IN_USE",
                              "INVALID_ADDRESS",
                              "INTERRUPTED_CALL",
                              "CONN_QUAL_UNAVAILABLE",
                              "RESERVED_LMR",
                              "PORT_IN_USE",
                              "COMM_NOT_SUPPORTED"};

constexpr std::array subtypes = {"NO_SUBTYPE",
                                 "SUB_INTERRUPTED",
                                 "RESOURCE_MEMORY",
                                 "RESOURCE_DEVICE",
                                 "RESOURCE_TEP",
                                 "RESOURCE_TEVD",
                                 "RESOURCE_PROTECTION_DOMAIN",
                                 "RESOURCE_MEMORY_REGION",
                                 "RESOURCE_ERROR_HANDLER",
                                 "RESOURCE_CREDITS",
                                 "RESOURCE_SRQ",
                                 "INVALID_HANDLE_IA",
                                 "INVALID_HANDLE_EP",
                                 "INVALID_HANDLE_LMR",
                                 "INVALID_HANDLE_RMR",
                                 "INVALID_HANDLE_PZ",
                                 "INVALID_HANDLE_PSP",
                                 "INVALID_HANDLE_RSP",
                                 "INVALID_HANDLE_CR",
                                 "INVALID_HANDLE_CNO",
                                 "INVALID_HANDLE_EVD_CR",
                                 "INVALID_HANDLE_EVD_REQUEST",
                                 "INVALID_HANDLE_EVD_RECV",
                                 "INVALID_HANDLE_EVD_CONN",
                                 "INVALID_HANDLE_EVD_ASYNC",
                                 "INVALID_HANDLE_SRQ",
                                 "INVALID_HANDLE_CSP",
                                 "INVALID_HANDLE1",
                                 "INVALID_HANDLE2",
                                 "INVALID_HANDLE3",
                                 "INVALID_HANDLE4",
                                 "INVALID_HANDLE5",
                                 "INVALID_HANDLE6",
                                 "INVALID_HANDLE7",
                                 "INVALID_HANDLE8",
                                 "INVALID_HANDLE9",
                                 "INVALID_HANDLE10",
                                 "INVALID_ARG1",
                                 "INVALID_ARG2",
                                 "INVALID_ARG3",
                                 "INVALID_ARG4",
                                 "INVALID_ARG5",
                                 "INVALID_ARG6",
                                 "INVALID_ARG7",
                                 "INVALID_ARG8",
                                 "INVALID_ARG9",
                                 "INVALID_ARG10",
                                 "INVALID_STATE_EP_UNCONNECTED",
                                 "INVALID_STATE_EP_ACTCONNPENDING",
                                 "INVALID_STATE_EP_PASSCONNPENDING",
                                 "INVALID_STATE_EP_TENTCONNPENDING",
                                 "INVALID_STATE_EP_CONNECTED",
                                 "INVALID_STATE_EP_DISCONNECTED",
                                 "INVALID_STATE_EP_RESERVED",
                                 "INVALID_STATE_EP_COMPLPENDING",
                                 "INVALID_STATE_EP_DISCPENDING",
                                 "INVALID_STATE_EP_PROVIDERCONTROL",
                                 "INVALID_STATE_EP_NOTREADY",
                                 "INVALID_STATE_EP_RECV_WATERMARK",
                                 "INVALID_STATE_EP_PZ",
                                 "INVALID_STATE_EP_EVD_REQUEST",
                                 "INVALID_STATE_EP_EVD_RECV",
                                 "INVALID_STATE_EP_EVD_CONNECT",
                                 "INVALID_STATE_EP_UNCONFIGURED",
                                 "INVALID_STATE_EP_UNCONFRESERVED",
                                 "INVALID_STATE_EP_UNCONFPASSIVE",
                                 "INVALID_STATE_EP_UNCONFTENTATIVE",
                                 "INVALID_STATE_CNO_IN_USE",
                                 "INVALID_STATE_CNO_DEAD",
                                 "INVALID_STATE_EVD_OPEN",
                                 "INVALID_STATE_EVD_ENABLED",
                                 "INVALID_STATE_EVD_DISABLED",
                                 "INVALID_STATE_EVD_WAITABLE",
                                 "INVALID_STATE_EVD_UNWAITABLE",
                                 "INVALID_STATE_EVD_IN_USE",
                                 "INVALID_STATE_EVD_CONFIG_NOTIFY",
                                 "INVALID_STATE_EVD_CONFIG_SOLICITED",
                                 "INVALID_STATE_EVD_CONFIG_THRESHOLD",
                                 "INVALID_STATE_EVD_WAITER",
                                 "INVALID_STATE_EVD_ASYNC",
                                 "INVALID_STATE_IA_IN_USE",
                                 "INVALID_STATE_LMR_IN_USE",
                                 "INVALID_STATE_LMR_FREE",
                                 "INVALID_STATE_PZ_IN_USE",
                                 "INVALID_STATE_PZ_FREE",
                                 "INVALID_STATE_SRQ_OPERATIONAL",
                                 "INVALID_STATE_SRQ_ERROR",
                                 "INVALID_STATE_SRQ_IN_USE",
                                 "INVALID_STATE_SRQ_SHUTDOWN",
                                 "PRIVILEGES_READ",
                                 "PRIVILEGES_WRITE",
                                 "PRIVILEGES_RDMA_READ",
                                 "PRIVILEGES_RDMA_WRITE",
                                 "PROTECTION_READ",
                                 "PROTECTION_WRITE",
                                 "PROTECTION_RDMA_READ",
                                 "PROTECTION_RDMA_WRITE",
                                 "INVALID_ADDRESS_UNSUPPORTED",
                                 "INVALID_ADDRESS_UNREACHABLE",
                                 "INVALID_ADDRESS_MALFORMED",
                                 "NAME_NOT_REGISTERED",
                                 "MAJOR_NOT_FOUND",
                                 "MINOR_NOT_FOUND",
                                 "THREAD_SAFETY_NOT_FOUND"};

constexpr std::array ep_states = {"UNCONNECTED",
                                  "UNCONFIGURED_UNCONNECTED",
                                  "RESERVED",
                                  "UNCONFIGURED_RESERVED",
                                  "PASSIVE_CONNECTION_PENDING",
                                  "UNCONFIGURED_PASSIVE",
                                  "ACTIVE_CONNECTION_PENDING",
                                  "TENTATIVE_CONNECTION_PENDING",
                                  "UNCONFIGURED_TENTATIVE",
                                  "CONNECTED",
                                  "DISCONNECT_PENDING",
                                  "DISCONNECTED",
                                  "COMPLETION_PENDING",
                                  "CONNECTED_SINGLE_PATH",
                                  "CONNECTED_MULTI_PATH"};

constexpr std::array statuses = {"SUCCESS",          "FLUSHED",
                                 "LOCAL_LENGTH",     "LOCAL_EP",
                                 "LOCAL_PROTECTION", "BAD_RESPONSE",
                                 "REMOTE_ACCESS",    "REMOTE_RESPONDER",
                                 "TRANSPORT",        "RECEIVER_NOT_READY",
                                 "PARTIAL_PACKET",   "RMR_OPERATION_FAILED",
                                 "LOCAL_MM_ERROR"};

std::string name_or_number(std::span<const char *const> names, unsigned value) {
    return value < names.size() ? names[value] : concat("number ", value);
}

} // namespace

std::string return_name(DAT_RETURN value) {
    const DAT_RETURN type = DAT_GET_TYPE(value), subtype = DAT_GET_SUBTYPE(value);
    std::string name =
        type == DAT_NOT_IMPLEMENTED ? "NOT_IMPLEMENTED" : name_or_number(types, type >> 16);
    if (subtype != 0)
        name += "/" + name_or_number(subtypes, subtype);
    if (type != 0 && !(value & DAT_CLASS_ERROR))
        name += " without the class";
    std::array<char, 16> hex{};
    std::snprintf(hex.data(), hex.size(), " (0x%08x)", value);
    return name + hex.data();
}

std::string to_string(DAT_EP_STATE state) {
    return name_or_number(ep_states, state);
}
std::string to_string(DAT_DTO_COMPLETION_STATUS status) {
    return name_or_number(statuses, status);
}

std::string to_string(DAT_EVENT_NUMBER number) {
    switch (number) {
    case DAT_DTO_COMPLETION_EVENT:
        return "DTO_COMPLETION_EVENT";
    case DAT_RMR_BIND_COMPLETION_EVENT:
        return "RMR_BIND_COMPLETION_EVENT";
    case DAT_CONNECTION_REQUEST_EVENT:
        return "CONNECTION_REQUEST_EVENT";
    case DAT_CONNECTION_EVENT_ESTABLISHED:
        return "ESTABLISHED";
    case DAT_CONNECTION_EVENT_PEER_REJECTED:
        return "PEER_REJECTED";
    case DAT_CONNECTION_EVENT_NON_PEER_REJECTED:
        return "NON_PEER_REJECTED";
    case DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR:
        return "ACCEPT_COMPLETION_ERROR";
    case DAT_CONNECTION_EVENT_DISCONNECTED:
        return "DISCONNECTED";
    case DAT_CONNECTION_EVENT_BROKEN:
        return "BROKEN";
    case DAT_CONNECTION_EVENT_TIMED_OUT:
        return "TIMED_OUT";
    case DAT_CONNECTION_EVENT_UNREACHABLE:
        return "UNREACHABLE";
    case DAT_ASYNC_ERROR_EVD_OVERFLOW:
        return "EVD_OVERFLOW";
    case DAT_ASYNC_ERROR_IA_CATASTROPHIC:
        return "IA_CATASTROPHIC";
    case DAT_ASYNC_ERROR_EP_BROKEN:
        return "EP_BROKEN";
    case DAT_ASYNC_ERROR_TIMED_OUT:
        return "TIMED_OUT";
    case DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR:
        return "PROVIDER_INTERNAL_ERROR";
    case DAT_SOFTWARE_EVENT:
        return "SOFTWARE_EVENT";
    default:
        return concat("event ", static_cast<unsigned>(number));
    }
}

} // namespace conform

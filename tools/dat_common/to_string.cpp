// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only

#include "dat_common/to_string.hpp"

#include <fmt/core.h>

namespace tools::dat {
namespace {

struct enum_name {
    unsigned number;
    const char *text;
};

constexpr enum_name EVENTS[] = {
    {DAT_DTO_COMPLETION_EVENT, "DAT_DTO_COMPLETION_EVENT"},
    {DAT_RMR_BIND_COMPLETION_EVENT, "DAT_RMR_BIND_COMPLETION_EVENT"},
    {DAT_CONNECTION_REQUEST_EVENT, "DAT_CONNECTION_REQUEST_EVENT"},
    {DAT_CONNECTION_EVENT_ESTABLISHED, "DAT_CONNECTION_EVENT_ESTABLISHED"},
    {DAT_CONNECTION_EVENT_PEER_REJECTED, "DAT_CONNECTION_EVENT_PEER_REJECTED"},
    {DAT_CONNECTION_EVENT_NON_PEER_REJECTED, "DAT_CONNECTION_EVENT_NON_PEER_REJECTED"},
    {DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR, "DAT_CONNECTION_EVENT_ACCEPT_COMPLETION_ERROR"},
    {DAT_CONNECTION_EVENT_DISCONNECTED, "DAT_CONNECTION_EVENT_DISCONNECTED"},
    {DAT_CONNECTION_EVENT_BROKEN, "DAT_CONNECTION_EVENT_BROKEN"},
    {DAT_CONNECTION_EVENT_TIMED_OUT, "DAT_CONNECTION_EVENT_TIMED_OUT"},
    {DAT_CONNECTION_EVENT_UNREACHABLE, "DAT_CONNECTION_EVENT_UNREACHABLE"},
    {DAT_ASYNC_ERROR_EVD_OVERFLOW, "DAT_ASYNC_ERROR_EVD_OVERFLOW"},
    {DAT_ASYNC_ERROR_IA_CATASTROPHIC, "DAT_ASYNC_ERROR_IA_CATASTROPHIC"},
    {DAT_ASYNC_ERROR_EP_BROKEN, "DAT_ASYNC_ERROR_EP_BROKEN"},
    {DAT_ASYNC_ERROR_TIMED_OUT, "DAT_ASYNC_ERROR_TIMED_OUT"},
    {DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR, "DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR"},
    {DAT_HA_DOWN_TO_1, "DAT_HA_DOWN_TO_1"},
    {DAT_HA_UP_TO_MULTI_PATH, "DAT_HA_UP_TO_MULTI_PATH"},
    {DAT_SOFTWARE_EVENT, "DAT_SOFTWARE_EVENT"},
};

constexpr enum_name STATUSES[] = {
    {DAT_DTO_SUCCESS, "DAT_DTO_SUCCESS"},
    {DAT_DTO_ERR_FLUSHED, "DAT_DTO_ERR_FLUSHED"},
    {DAT_DTO_ERR_LOCAL_LENGTH, "DAT_DTO_ERR_LOCAL_LENGTH"},
    {DAT_DTO_ERR_LOCAL_EP, "DAT_DTO_ERR_LOCAL_EP"},
    {DAT_DTO_ERR_LOCAL_PROTECTION, "DAT_DTO_ERR_LOCAL_PROTECTION"},
    {DAT_DTO_ERR_BAD_RESPONSE, "DAT_DTO_ERR_BAD_RESPONSE"},
    {DAT_DTO_ERR_REMOTE_ACCESS, "DAT_DTO_ERR_REMOTE_ACCESS"},
    {DAT_DTO_ERR_REMOTE_RESPONDER, "DAT_DTO_ERR_REMOTE_RESPONDER"},
    {DAT_DTO_ERR_TRANSPORT, "DAT_DTO_ERR_TRANSPORT"},
    {DAT_DTO_ERR_RECEIVER_NOT_READY, "DAT_DTO_ERR_RECEIVER_NOT_READY"},
    {DAT_DTO_ERR_PARTIAL_PACKET, "DAT_DTO_ERR_PARTIAL_PACKET"},
    {DAT_RMR_OPERATION_FAILED, "DAT_RMR_OPERATION_FAILED"},
    {DAT_DTO_ERR_LOCAL_MM_ERROR, "DAT_DTO_ERR_LOCAL_MM_ERROR"},
};

/// The name of a number; if it has none, such as "event 0x77".
template <std::size_t Count>
std::string find_name(const enum_name (&names)[Count], unsigned number, const char *kind) {
    for (const enum_name &name : names)
        if (name.number == number)
            return name.text;
    return fmt::format("{} {:#x}", kind, number);
}

std::string format_error(std::string_view action, DAT_RETURN ret, std::string_view advice) {
    std::string text = fmt::format("{}: {}", action, to_string(ret));
    if (!advice.empty())
        text += fmt::format("; {}", advice);
    return text;
}

} // namespace

std::string to_string(DAT_RETURN code) {
    const char *type = nullptr, *detail = nullptr;
    // OFED's library does not know all types and subtypes, and then does not set the pointers.
    if (dat_strerror(code, &type, &detail) != DAT_SUCCESS || !type)
        return fmt::format("DAT_RETURN {:#010x}", code);
    if (DAT_GET_SUBTYPE(code) == 0 || !detail || !*detail)
        return type;
    return fmt::format("{} ({})", type, detail);
}

std::string event_to_string(DAT_EVENT_NUMBER number) {
    return find_name(EVENTS, number, "event");
}

std::string status_to_string(DAT_DTO_COMPLETION_STATUS status) {
    return find_name(STATUSES, status, "status");
}

error::error(std::string_view action, DAT_RETURN ret, std::string_view advice)
    : std::runtime_error(format_error(action, ret, advice))
    , code(ret) {}

void check(DAT_RETURN ret, std::string_view action, std::string_view advice) {
    if (ret != DAT_SUCCESS)
        throw error(action, ret, advice);
}

} // namespace tools::dat

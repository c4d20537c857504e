// SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
#pragma once

#include <dat2/udat.h>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tools::dat {

/// The names of a return code: "DAT_INVALID_STATE (DAT_INVALID_STATE_EP_CONNECTED)".
std::string to_string(DAT_RETURN code);

/// "DAT_CONNECTION_EVENT_DISCONNECTED"
std::string event_to_string(DAT_EVENT_NUMBER number);

/// The name of a DTO status: "DAT_DTO_ERR_FLUSHED".
std::string status_to_string(DAT_DTO_COMPLETION_STATUS status);

/// A DAT call failed: what was attempted, the names of the return code, and advice.
class error : public std::runtime_error {
  public:
    error(std::string_view action, DAT_RETURN ret, std::string_view advice);
    const DAT_RETURN code;
};

/// Throws an error if ret is not DAT_SUCCESS.
void check(DAT_RETURN ret, std::string_view action, std::string_view advice = {});

} // namespace tools::dat
